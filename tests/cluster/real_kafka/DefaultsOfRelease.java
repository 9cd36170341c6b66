import java.lang.reflect.AccessibleObject;
import java.lang.reflect.Field;
import java.lang.reflect.Member;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** Prints kind, key and default of each key in the ConfigDefs of the jars on the class path, of 0.10 or later. */
public class DefaultsOfRelease {
    public static void main(String[] arguments) throws Exception {
        print("broker", "org.apache.kafka.server.config.AbstractKafkaConfig CONFIG_DEF", "kafka.server.KafkaConfig$ configDef");
        print("topic", "org.apache.kafka.storage.internals.log.LogConfig CONFIG", "kafka.log.LogConfig$ configDef");
        print("producer", "org.apache.kafka.clients.producer.ProducerConfig CONFIG");
        print("consumer", "org.apache.kafka.clients.consumer.ConsumerConfig CONFIG");
        print("group", "org.apache.kafka.coordinator.group.GroupConfig CONFIG", "org.apache.kafka.coordinator.group.GroupConfig CONFIG_DEF");
    }

    private static void print(String kind, String... places) throws Exception {
        for (String place : places) {
            String[] words = place.split(" ");
            try {
                Class<?> type = Class.forName(words[0]);
                Object owner = words[0].endsWith("$") ? type.getField("MODULE$").get(null) : null;
                Object definition = read(type, owner, words[1]);
                for (Map.Entry<?, ?> key : new TreeMap<>((Map<?, ?>) read(definition.getClass(), definition, "configKeys")).entrySet()) {
                    Object value = read(key.getValue().getClass(), key.getValue(), "defaultValue");
                    boolean isRequired = value != null && value.getClass() == Object.class;
                    System.out.println(kind + "\t" + key.getKey() + "\t" + (isRequired ? "" : value));
                }
                return;
            } catch (ClassNotFoundException | NoSuchFieldException notInThisRelease) {
                continue;
            }
        }
    }

    /** Returns the value of a field or of a method without parameters, also of one whose name Scala has made longer. */
    private static Object read(Class<?> type, Object owner, String name) throws Exception {
        for (Class<?> each = type; each != null; each = each.getSuperclass()) {
            List<Member> members = new ArrayList<>(List.of(each.getDeclaredFields()));
            members.addAll(List.of(each.getDeclaredMethods()));
            for (Member member : members) {
                boolean isIt = member.getName().equals(name) || member.getName().endsWith("$$" + name);
                if (!isIt || member instanceof Method && ((Method) member).getParameterCount() > 0) {
                    continue;
                }
                ((AccessibleObject) member).setAccessible(true);
                Object target = Modifier.isStatic(member.getModifiers()) ? null : owner;
                Object value = member instanceof Field ? ((Field) member).get(target) : ((Method) member).invoke(target);
                if (value != null || name.equals("defaultValue")) {
                    return value;
                }
            }
        }
        throw new NoSuchFieldException(type + "." + name);
    }
}
