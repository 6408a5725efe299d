"""Programs for real clients of other languages, which play one scenario each: Java, Go and Node."""
