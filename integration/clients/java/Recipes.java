import java.io.DataInputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.Socket;
import java.util.ArrayList;
import java.util.List;

/** What docs/recipes.md shows for Java, against a proxy with admin-commands. Usage: Recipes HOST PORT */
final class Recipes {
    /** As much of a client as the recipe needs, with a connection for each command. */
    private record Client(String host, int port) implements HeldLock.Redis {
        @Override
        public Object call(String... words) {
            try (Socket socket = new Socket(host, port)) {
                StringBuilder command = new StringBuilder("*" + words.length + "\r\n");
                for (String word : words) {
                    command.append("$").append(word.length()).append("\r\n").append(word).append("\r\n");
                }
                socket.getOutputStream().write(command.toString().getBytes());
                return reply(new DataInputStream(socket.getInputStream()));
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }

        private static Object reply(DataInputStream in) throws IOException {
            String line = in.readLine();
            switch (line.charAt(0)) {
                case ':':
                    return Long.valueOf(line.substring(1));
                case '*':
                    List<Object> all = new ArrayList<>();
                    for (int n = Integer.parseInt(line.substring(1)); n > 0; n--) {
                        all.add(reply(in));
                    }
                    return all;
                case '$':
                    if (line.equals("$-1")) {
                        return null;
                    }
                    byte[] bytes = in.readNBytes(Integer.parseInt(line.substring(1)));
                    in.readLine();
                    return bytes;
                default:
                    throw new IllegalStateException(line);
            }
        }
    }

    private static void check(boolean ok, String what) {
        if (!ok) {
            throw new AssertionError(what);
        }
    }

    private static void fails(Class<?> kind, Runnable work) {
        try {
            work.run();
        } catch (RuntimeException e) {
            check(kind.isInstance(e), e.toString());
            return;
        }
        throw new AssertionError("no " + kind);
    }

    public static void main(String[] args) throws Exception {
        Client redis = new Client(args[0], Integer.parseInt(args[1]));
        try (HeldLock first = new HeldLock(redis, "java", 3_000, 0)) {
            fails(HeldLock.Taken.class, () -> new HeldLock(redis, "java", 3_000, 0));
            Thread.sleep(3500); // longer than the ttl: it is renewed
            first.check();
            check(redis.call("LOCKINFO", "java") != null, "not held");
        }
        check(redis.call("LOCKINFO", "java") == null, "held");

        long[] fences = new long[2];
        Thread later = new Thread(() -> {
            try (HeldLock second = new HeldLock(redis, "java", 10_000, 20_000)) {
                second.check();
                fences[1] = second.fence;
            }
        });
        try (HeldLock first = new HeldLock(redis, "java", 10_000, 0)) {
            fences[0] = first.fence;
            later.start();
            while (!Long.valueOf(1).equals(((List<?>) redis.call("LOCKINFO", "java")).get(11))) {
                Thread.sleep(5);
            }
        }
        later.join();
        check(fences[1] > fences[0], "the fence did not rise");

        fails(HeldLock.Lost.class, () -> {
            try (HeldLock lock = new HeldLock(redis, "java", 3_000, 0)) {
                redis.call("LOCKPROXY", "RELEASE", "java");
                while (lock.held()) {
                    Thread.onSpinWait();
                }
                lock.check();
            }
        });
        fails(HeldLock.Lost.class, () -> {
            try (HeldLock lock = new HeldLock(redis, "java", 10_000, 0)) {
                redis.call("LOCKPROXY", "RELEASE", "java");
            }
        });
        System.out.println("java " + System.getProperty("java.version") + " all ok");
    }
}
