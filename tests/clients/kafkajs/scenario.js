// Runs one scenario of KafkaJS against a broker, and prints what it found as one line of JSON.
// node scenario.js NAME HOST:PORT; kafkajs is found by NODE_PATH.
'use strict'

const { CompressionTypes, Kafka, logLevel } = require('kafkajs')

const COUNT = 200
const values = (name) => Array.from({ length: COUNT }, (_, index) => ({ key: `k${index}`, value: `${name}-${index}` }))

// What a group is given from the beginning, until so many have come.
async function consume(kafka, topic, groupId, count) {
  const consumer = kafka.consumer({ groupId, maxWaitTimeInMs: 100 })
  const found = []
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  await new Promise((resolve, reject) => {
    consumer.on(consumer.events.CRASH, (event) => reject(event.payload.error))
    consumer
      .run({
        eachMessage: async ({ partition, message }) => {
          found.push({ partition, offset: message.offset, value: message.value.toString(), headers: message.headers })
          if (found.length === count) resolve()
        },
      })
      .catch(reject)
  })
  await consumer.disconnect()
  return found
}

async function withAdmin(kafka, work) {
  const admin = kafka.admin()
  await admin.connect()
  try {
    return await work(admin)
  } finally {
    await admin.disconnect()
  }
}

const scenarios = {
  async group(kafka) {
    await withAdmin(kafka, (admin) => admin.createTopics({ topics: [{ topic: 'js-group', numPartitions: 3 }] }))
    const producer = kafka.producer()
    await producer.connect()
    const headers = { trace: 'abc' }
    const messages = values('gzip').map((message) => ({ ...message, headers }))
    await producer.send({ topic: 'js-group', compression: CompressionTypes.GZIP, acks: -1, messages })
    await producer.disconnect()
    const found = await consume(kafka, 'js-group', 'js-readers', COUNT)
    const [{ partitions }] = await withAdmin(kafka, (admin) =>
      admin.fetchOffsets({ groupId: 'js-readers', topics: ['js-group'] })
    )
    return {
      values: found.map(({ value }) => value),
      partitions: [...new Set(found.map(({ partition }) => partition))].sort(),
      traces: [...new Set(found.map((message) => message.headers.trace.toString()))],
      committed: partitions.reduce((sum, { offset }) => sum + Number(offset), 0),
    }
  },

  async admin(kafka) {
    return withAdmin(kafka, async (admin) => {
      const topic = 'js-admin'
      const created = await admin.createTopics({
        topics: [{ topic, numPartitions: 2, configEntries: [{ name: 'retention.ms', value: '3600000' }] }],
      })
      const again = await admin.createTopics({ topics: [{ topic, numPartitions: 2 }] })
      const listed = (await admin.listTopics()).includes(topic)
      await admin.createPartitions({ topicPartitions: [{ topic, count: 4 }] })
      const { topics } = await admin.fetchTopicMetadata({ topics: [topic] })
      const described = await admin.describeConfigs({ resources: [{ type: 2, name: topic }], includeSynonyms: false })
      const retention = described.resources[0].configEntries.find(({ configName }) => configName === 'retention.ms')
      const offsets = await admin.fetchTopicOffsets(topic)
      const { brokers } = await admin.describeCluster()
      await admin.deleteTopics({ topics: [topic] })
      return {
        created,
        again,
        listed,
        partitions: topics[0].partitions.length,
        retention: retention.configValue,
        offsets: offsets.length,
        brokers: brokers.length,
        left: (await admin.listTopics()).includes(topic),
      }
    })
  },

  async transactions(kafka) {
    const topic = 'js-transactions'
    await withAdmin(kafka, (admin) => admin.createTopics({ topics: [{ topic, numPartitions: 2 }] }))
    const producer = kafka.producer({ transactionalId: 'js', idempotent: true, maxInFlightRequests: 1 })
    await producer.connect()
    const aborted = await producer.transaction()
    await aborted.send({ topic, messages: values('aborted') })
    await aborted.abort()
    const committed = await producer.transaction()
    await committed.send({ topic, messages: values('committed') })
    await committed.sendOffsets({
      consumerGroupId: 'js-source',
      topics: [{ topic, partitions: [{ partition: 0, offset: '7' }] }],
    })
    await committed.commit()
    await producer.disconnect()
    const found = await consume(kafka, topic, 'js-committed', COUNT)
    const [{ partitions }] = await withAdmin(kafka, (admin) =>
      admin.fetchOffsets({ groupId: 'js-source', topics: [topic] })
    )
    return {
      values: found.map(({ value }) => value),
      offset: partitions.find(({ partition }) => partition === 0).offset,
    }
  },
}

async function main([name, address]) {
  const kafka = new Kafka({ clientId: 'scenario', brokers: [address], logLevel: logLevel.ERROR })
  console.log(JSON.stringify(await scenarios[name](kafka)))
}

main(process.argv.slice(2)).catch((error) => {
  console.error(error)
  process.exit(1)
})
