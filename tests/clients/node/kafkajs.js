// The scenario with kafkajs: BOOTSTRAP PREFIX RECORDS; a line `ok STEP` for each step, or `failed STEP: why`.
'use strict'
const { setTimeout: sleep } = require('node:timers/promises')
const kafkajs = require('kafkajs')

const { Kafka, CompressionTypes, CompressionCodecs, ConfigResourceTypes, logLevel } = kafkajs
CompressionCodecs[CompressionTypes.Snappy] = require('kafkajs-snappy')

const [bootstrap, prefix, words] = process.argv.slice(2)
const records = Number(words)
const partitions = 4
const begun = Date.now()
const topic = `${prefix}-topic`
const codecs = { none: CompressionTypes.None, gzip: CompressionTypes.GZIP, snappy: CompressionTypes.Snappy }
const kafka = new Kafka({ brokers: [bootstrap], clientId: prefix, logLevel: logLevel.NOTHING, retry: { retries: 2 } })
const admin = kafka.admin()

function check (holds, sentence) {
  if (!holds) throw new Error(sentence)
}

async function until (what, condition) {
  for (const end = Date.now() + 30_000; !condition(); await sleep(10)) check(Date.now() < end, `waited 30 s for ${what}`)
}

async function step (name, what) {
  const begun = Date.now()
  try {
    const told = await what()
    console.log(`ok ${name} ${told} (${Date.now() - begun} ms)`)
  } catch (error) {
    console.log(`failed ${name}: ${error}`)
    process.exit(1)
  }
}

async function setting (name) {
  const asked = [{ type: ConfigResourceTypes.TOPIC, name: topic, configNames: [name] }]
  const found = await admin.describeConfigs({ resources: asked, includeSynonyms: false })
  return found.resources[0].configEntries[0]
}

async function topics () {
  const configEntries = [{ name: 'retention.ms', value: '7200000' }, { name: 'segment.bytes', value: '1000000' }]
  check(await admin.createTopics({ topics: [{ topic, numPartitions: 2, configEntries }] }), 'it was created')
  await admin.createPartitions({ topicPartitions: [{ topic, count: partitions }] })
  const found = await admin.fetchTopicMetadata({ topics: [topic] })
  check(found.topics[0].partitions.length === partitions, 'partitions were added')
  const shown = await setting('segment.bytes')
  check(shown.configValue === '1000000' && shown.configSource === 1, JSON.stringify(shown))
  check((await admin.listTopics()).includes(topic), 'it is listed')
  return topic
}

async function send (into, codec, value) {
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1, createPartitioner: () => ({ message }) => message.partition })
  await producer.connect()
  const messages = []
  for (let number = 0; number < records; number++) {
    messages.push({
      partition: number % partitions, key: `k${number}`, value: value(number), timestamp: String(begun + number), headers: { codec }
    })
  }
  await producer.send({ topic: into, acks: -1, compression: codecs[codec], messages })
  await producer.disconnect()
}

async function produce (codec) {
  await send(topic, codec, number => `${codec}-${number}`)
  return `${records} records`
}

// A member of a group: it reads, commits what it was given, and notes what it owned.
async function join (read) {
  const consumer = kafka.consumer({
    groupId: read, sessionTimeout: 6000, heartbeatInterval: 200, maxWaitTimeInMs: 100, readUncommitted: false
  })
  const member = { owned: [], values: [], offsets: [], consumer }
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => { member.owned = payload.memberAssignment[read] ?? [] })
  consumer.on(consumer.events.REBALANCING, () => { member.owned = [] })
  await consumer.connect()
  await consumer.subscribe({ topics: [read], fromBeginning: true })
  await consumer.run({
    autoCommit: false,
    eachBatch: async ({ batch, resolveOffset }) => {
      for (const one of batch.messages) {
        member.values.push(one.value.toString())
        member.offsets.push(Number(one.offset))
        resolveOffset(one.offset)
      }
      const offset = String(Number(batch.lastOffset()) + 1)
      await consumer.commitOffsets([{ topic: batch.topic, partition: batch.partition, offset }])
    }
  })
  return member
}

function shared (...members) {
  const owned = members.flatMap(one => one.owned)
  return members.every(one => one.owned.length > 0) && owned.length === partitions && new Set(owned).size === partitions
}

async function group () {
  const read = `${prefix}-eager`
  await admin.createTopics({ topics: [{ topic: read, numPartitions: partitions }] })
  const first = await join(read)
  await until('the first member owns all', () => shared(first))
  await send(read, 'gzip', number => `0-${number}`)
  await until('the first part', () => first.values.length >= records)
  const second = await join(read)
  await until('two members share', () => shared(first, second))
  await send(read, 'gzip', number => `1-${number}`)
  await until('the second part', () => first.values.length + second.values.length >= 2 * records)
  await second.consumer.disconnect()
  await until('the first member owns all again', () => shared(first))
  await send(read, 'gzip', number => `2-${number}`)
  await until('the third part', () => first.values.length + second.values.length >= 3 * records)
  await first.consumer.disconnect()
  const all = [...first.values, ...second.values]
  check(all.length === 3 * records && new Set(all).size === all.length, `every record once, not ${all.length}`)
  const committed = await admin.fetchOffsets({ groupId: read })
  const sum = committed[0].partitions.reduce((so, one) => so + Number(one.offset), 0)
  check(sum === 3 * records, `committed: ${sum}`)
  return `${all.length} records`
}

async function seek () {
  const ends = await admin.fetchTopicOffsets(topic)
  check(ends.every(one => Number(one.high) === Object.keys(codecs).length * records / partitions), JSON.stringify(ends))
  const at = await admin.fetchTopicOffsetsByTimestamp(topic, begun + 2 * partitions)
  check(at.find(one => one.partition === 0).offset === '2', `the record of a time: ${JSON.stringify(at)}`)
  const reader = await join(topic)
  await until('all is read', () => reader.values.length >= Object.keys(codecs).length * records)
  reader.offsets = []
  reader.consumer.seek({ topic, partition: 0, offset: '7' })
  await until('reading goes on', () => reader.offsets.length > 0)
  check(reader.offsets[0] === 7, `reading goes on at offset ${reader.offsets[0]}`)
  await reader.consumer.disconnect()
  return `${new Set(reader.values).size} records`
}

async function groups () {
  const read = `${prefix}-eager`
  const names = async () => (await admin.listGroups()).groups.map(one => one.groupId)
  check((await names()).includes(read), 'it is listed')
  check((await admin.describeGroups([read])).groups[0].state === 'Empty', 'it is empty')
  await admin.setOffsets({ groupId: read, topic: read, partitions: [{ partition: 1, offset: '3' }] })
  const now = await admin.fetchOffsets({ groupId: read, topics: [read] })
  check(now[0].partitions.find(one => one.partition === 1).offset === '3', JSON.stringify(now))
  await admin.deleteGroups([read])
  check(!(await names()).includes(read), 'it is gone')
  return 'listed, set, deleted'
}

async function settings () {
  const configEntries = [{ name: 'max.message.bytes', value: '2000000' }]
  await admin.alterConfigs({ validateOnly: false, resources: [{ type: ConfigResourceTypes.TOPIC, name: topic, configEntries }] })
  check((await setting('max.message.bytes')).configValue === '2000000', 'a setting was changed')
  check((await setting('retention.ms')).isDefault || (await setting('retention.ms')).configSource === 5, 'the others are defaults again')
  return 'changed'
}

async function remove () {
  await admin.deleteTopics({ topics: [topic, `${prefix}-eager`] })
  const left = await admin.listTopics()
  check(!left.includes(topic), 'it is gone')
  return `${left.length} topics left`
}

async function main () {
  await admin.connect()
  await step('topics', topics)
  for (const codec of Object.keys(codecs)) await step(`produce-${codec}`, () => produce(codec))
  await step('seek', seek)
  await step('eager', group)
  await step('groups', groups)
  await step('settings', settings)
  await step('delete', remove)
  await admin.disconnect()
}

main()
