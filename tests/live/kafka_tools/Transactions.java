import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;

/** java -cp JARS Transactions.java BOOTSTRAP: what Kafka's Java client does with transactions, a line each. */
class Transactions {
    static final long PATIENCE_MS = 60_000;
    static final TopicPartition ORDERS = new TopicPartition("orders", 0);
    static final TopicPartition BILLS = new TopicPartition("bills", 0);
    static String bootstrap;

    public static void main(String[] arguments) {
        bootstrap = arguments[0];
        endsAndReaders();
        zombie();
        transform(false);
        transform(true);
        say("bills committed", read(BILLS, "read_committed", "B"));
        System.exit(0);
    }

    static void endsAndReaders() {
        try (KafkaProducer<String, String> producer = producer("tx")) {
            send(producer, ORDERS, "a", "b");
            producer.commitTransaction();
            send(producer, ORDERS, "c");
            producer.flush();
            producer.abortTransaction();
            send(producer, ORDERS, "d");
            producer.commitTransaction();
        }
        say("committed", read(ORDERS, "read_committed", "d"));
        say("uncommitted", read(ORDERS, "read_uncommitted", "d"));
    }

    static void zombie() {
        KafkaProducer<String, String> zombie = producer("fenced");
        send(zombie, BILLS, "z");
        zombie.flush();
        try (KafkaProducer<String, String> successor = producer("fenced")) {
            send(successor, BILLS, "s");
            successor.commitTransaction();
        }
        try {
            zombie.commitTransaction();
            say("zombie", "committed");
        } catch (ProducerFencedException | InvalidProducerEpochException fenced) {
            say("zombie", fenced.getClass().getSimpleName());
        }
        zombie.close(Duration.ZERO);
    }

    /** One round of consume-transform-produce; what is aborted is read again by the next one. */
    static void transform(boolean commits) {
        Properties settings = settings("group.id", "billing", "enable.auto.commit", "false",
            "auto.offset.reset", "earliest", "isolation.level", "read_committed");
        try (KafkaConsumer<String, String> consumer = consumer(settings);
             KafkaProducer<String, String> producer = producer("billing")) {
            consumer.subscribe(List.of("orders"));
            List<String> inputs = new ArrayList<>();
            long next = 0;
            long until = System.currentTimeMillis() + PATIENCE_MS;
            while (inputs.size() < 2 && System.currentTimeMillis() < until) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
                    if (inputs.size() < 2) {
                        inputs.add(record.value());
                        next = record.offset() + 1;
                    }
                }
            }
            say("inputs", inputs);
            send(producer, BILLS, inputs.stream().map(String::toUpperCase).toArray(String[]::new));
            producer.sendOffsetsToTransaction(Map.of(ORDERS, new OffsetAndMetadata(next)), consumer.groupMetadata());
            if (commits) {
                producer.commitTransaction();
            } else {
                producer.abortTransaction();
            }
            OffsetAndMetadata stands = consumer.committed(java.util.Set.of(ORDERS)).get(ORDERS);
            say("offset", stands == null ? "none" : stands.offset());
        }
    }

    static void send(KafkaProducer<String, String> producer, TopicPartition to, String... values) {
        producer.beginTransaction();
        for (String value : values) {
            producer.send(new ProducerRecord<>(to.topic(), to.partition(), null, value));
        }
    }

    static List<String> read(TopicPartition from, String isolation, String last) {
        List<String> values = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer = consumer(settings("isolation.level", isolation))) {
            consumer.assign(List.of(from));
            consumer.seekToBeginning(List.of(from));
            long until = System.currentTimeMillis() + PATIENCE_MS;
            while (!values.contains(last) && System.currentTimeMillis() < until) {
                consumer.poll(Duration.ofMillis(100)).forEach(record -> values.add(record.value()));
            }
        }
        return values;
    }

    static KafkaProducer<String, String> producer(String transactionalId) {
        Properties settings = settings("transactional.id", transactionalId,
            "key.serializer", "org.apache.kafka.common.serialization.StringSerializer",
            "value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        KafkaProducer<String, String> producer = new KafkaProducer<>(settings);
        producer.initTransactions();
        return producer;
    }

    static KafkaConsumer<String, String> consumer(Properties settings) {
        settings.put("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        settings.put("value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        return new KafkaConsumer<>(settings);
    }

    static Properties settings(String... pairs) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        for (int place = 0; place < pairs.length; place += 2) {
            settings.put(pairs[place], pairs[place + 1]);
        }
        return settings;
    }

    static void say(String what, Object value) {
        System.out.println(what + ": " + value);
    }
}
