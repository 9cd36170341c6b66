// KafkaJS: every acks with the compressions it has by itself, idempotence, a group with commits, admin.
const { Kafka, logLevel, CompressionTypes } = require('kafkajs')

const [bootstrap, topic] = process.argv.slice(2)
const kafka = new Kafka({ clientId: 'js', brokers: bootstrap.split(','), logLevel: logLevel.ERROR })
const until = async (condition) => {
  for (let turn = 0; turn < 600 && !(await condition()); turn++) await new Promise((go) => setTimeout(go, 50))
}

async function main() {
  const admin = kafka.admin()
  await admin.connect()
  for (const acks of [0, 1, -1]) {
    const producer = kafka.producer({ allowAutoTopicCreation: false })
    await producer.connect()
    for (const compression of [CompressionTypes.None, CompressionTypes.GZIP]) {
      const messages = [...Array(10).keys()].map((number) => ({ value: `${acks} ${compression} ${number}` }))
      await producer.send({ topic, acks, compression, messages })
    }
    await producer.disconnect()
  }
  const careful = kafka.producer({ idempotent: true, maxInFlightRequests: 1 })
  await careful.connect()
  await careful.send({ topic, messages: [...Array(10).keys()].map((number) => ({ value: `idempotent ${number}` })) })
  await careful.disconnect()

  const read = []
  const consumer = kafka.consumer({ groupId: 'js', sessionTimeout: 6000, heartbeatInterval: 500 })
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  await consumer.run({ eachMessage: async ({ message }) => { read.push(message.value.toString()) } })
  const committed = async () => {
    const [offsets] = await admin.fetchOffsets({ groupId: 'js', topics: [topic] })
    return offsets.partitions.reduce((sum, { offset }) => sum + Math.max(0, Number(offset)), 0)
  }
  await until(() => read.length >= 70)
  await consumer.disconnect()
  await until(async () => (await committed()) === read.length)

  await admin.createTopics({ waitForLeaders: true, topics: [{ topic: 'made-by-js', numPartitions: 2, replicationFactor: 3 }] })
  await admin.createPartitions({ topicPartitions: [{ topic: 'made-by-js', count: 3 }] })
  const configEntries = [{ name: 'retention.ms', value: '5000' }]
  await admin.alterConfigs({ validateOnly: false, resources: [{ type: 2, name: 'made-by-js', configEntries }] })
  const described = {}
  await until(async () => {
    const { topics } = await admin.fetchTopicMetadata({ topics: ['made-by-js'] })
    described.partitions = topics[0].partitions.length
    return described.partitions === 3
  })
  const { resources } = await admin.describeConfigs({ resources: [{ type: 2, name: 'made-by-js', configNames: ['retention.ms'] }] })
  described.retention = resources[0].configEntries[0].configValue
  await admin.deleteTopics({ topics: ['made-by-js'] })
  await until(async () => !(await admin.listTopics()).includes('made-by-js'))
  const deleted = !(await admin.listTopics()).includes('made-by-js')
  console.log(JSON.stringify({ read, committed: await committed(), described, deleted }))
  await admin.disconnect()
}

main().catch((error) => { console.error(error); process.exit(1) })
