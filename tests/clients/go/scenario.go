// Package scenario has what the Go programs share: their words, the lines they print, and how they wait.
package scenario

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

// Partitions of every topic that a group reads.
const Partitions = 4

// Codecs that are produced with.
var Codecs = []string{"none", "gzip", "snappy", "lz4", "zstd"}

// Words are what a program is started with: BOOTSTRAP PREFIX RECORDS.
type Words struct {
	Bootstrap, Prefix string
	Records           int
	Begun             int64 // milliseconds since 1970
}

// Read takes the words from the command line.
func Read() Words {
	records, err := strconv.Atoi(os.Args[3])
	if err != nil {
		panic(err)
	}
	return Words{os.Args[1], os.Args[2], records, time.Now().UnixMilli()}
}

// Step prints `ok NAME`, or `failed NAME: why` and ends the program.
func Step(name string, what func() string) {
	defer func() {
		if why := recover(); why != nil {
			fmt.Printf("failed %s: %v\n", name, why)
			os.Exit(1)
		}
	}()
	begun := time.Now()
	told := what()
	fmt.Printf("ok %s %s (%d ms)\n", name, told, time.Since(begun).Milliseconds())
}

// Must is for what may not fail.
func Must(err error) {
	if err != nil {
		panic(err)
	}
}

// Check ends the step with a sentence unless it holds.
func Check(holds bool, format string, values ...any) {
	if !holds {
		panic(fmt.Sprintf(format, values...))
	}
}

// Await waits up to 30 s.
func Await(what string, condition func() bool) {
	for end := time.Now().Add(30 * time.Second); !condition(); time.Sleep(10 * time.Millisecond) {
		Check(time.Now().Before(end), "waited 30 s for %s", what)
	}
}

// Shared tells whether every partition has one owner, and every member its part.
func Shared(owned ...[]int32) bool {
	seen, sum := map[int32]bool{}, 0
	for _, one := range owned {
		if len(one) == 0 {
			return false
		}
		for _, partition := range one {
			seen[partition] = true
		}
		sum += len(one)
	}
	return sum == Partitions && len(seen) == Partitions
}
