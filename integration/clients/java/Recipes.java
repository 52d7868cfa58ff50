import java.io.DataInputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;

/** What docs/recipes.md shows for Java, against a proxy with admin-commands. Usage: Recipes HOST PORT */
final class Recipes {
    /** As much of a client as the recipe needs, with a connection for each command. */
    private record Client(String host, int port) implements HeldLock.Redis {
        @Override
        public Object call(int timeout, String name, String... more) {
            List<String> words = new ArrayList<>(List.of(name));
            words.addAll(List.of(more));
            try (Socket socket = new Socket()) {
                socket.connect(new InetSocketAddress(host, port), 500);
                socket.setSoTimeout(timeout);
                StringBuilder command = new StringBuilder("*" + words.size() + "\r\n");
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
            if (line == null) {
                throw new IOException("closed");
            }
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
                    throw new IllegalStateException(line.substring(1));
            }
        }
    }

    private static void check(boolean ok, String what) {
        if (!ok) {
            throw new AssertionError(what);
        }
    }

    /** Work that may be interrupted. */
    private interface Work {
        void run() throws Exception;
    }

    private static void fails(Class<?> kind, Work work) {
        try {
            work.run();
        } catch (Exception e) {
            check(kind.isInstance(e), e.toString());
            return;
        }
        throw new AssertionError("no " + kind);
    }

    /**
     * HeldLock while proxies and masters die: count adds 1 to the file counter under a lock until there
     * is a file stop, and writes how often it did so. hold keeps a lock until it is lost.
     */
    private static void survive(String[] args) throws Exception {
        String name = args[1];
        Path folder = Path.of(args[2]);
        HeldLock.Proxies proxies = new HeldLock.Proxies(Stream.of(args).skip(3).map(address -> {
            String[] parts = address.split(":");
            return new Client(parts[0], Integer.parseInt(parts[1]));
        }).toArray(HeldLock.Redis[]::new));
        if (args[0].equals("hold")) {
            try (HeldLock lock = new HeldLock(proxies, "hold:" + name, 20_000, 5_000)) {
                Files.writeString(folder.resolve("held." + name), "" + lock.fence);
                while (true) {
                    Thread.sleep(10);
                    lock.check();
                }
            } catch (HeldLock.Lost e) {
                check(e.getMessage().contains("hold:" + name), e.toString());
            }
        }
        for (int done = 0; args[0].equals("count") && !Files.exists(folder.resolve("stop")); Thread.sleep(20)) {
            try (HeldLock lock = new HeldLock(proxies, "counter", 2_000, 15_000)) {
                int n = Integer.parseInt(Files.readString(folder.resolve("counter")).trim());
                Thread.sleep(5);
                lock.check();
                Files.writeString(folder.resolve("counter"), "" + (n + 1));
                Files.writeString(folder.resolve("done." + name), "" + ++done);
            } catch (HeldLock.Taken | HeldLock.Lost e) {
                System.out.println(e);
            }
        }
        System.out.println("all ok");
    }

    public static void main(String[] args) throws Exception {
        if (args[0].equals("count") || args[0].equals("hold")) {
            survive(args);
            return;
        }
        Client client = new Client(args[0], Integer.parseInt(args[1]));
        HeldLock.Proxies redis = new HeldLock.Proxies(client);
        try (HeldLock first = new HeldLock(redis, "java", 8_000, 0)) {
            fails(HeldLock.Taken.class, () -> { new HeldLock(redis, "java", 3_000, 0); });
            Thread.sleep(8500); // longer than the ttl: it is renewed
            first.check();
            check(client.call(9_000, "LOCKINFO", "java") != null, "not held");
        }
        check(client.call(9_000, "LOCKINFO", "java") == null, "held");

        long[] fences = new long[2];
        Thread later = new Thread(() -> {
            try (HeldLock second = new HeldLock(redis, "java", 10_000, 20_000)) {
                second.check();
                fences[1] = second.fence;
            } catch (InterruptedException | HeldLock.Taken | HeldLock.Lost e) {
                throw new IllegalStateException(e);
            }
        });
        try (HeldLock first = new HeldLock(redis, "java", 10_000, 0)) {
            fences[0] = first.fence;
            later.start();
            while (!Long.valueOf(1).equals(((List<?>) client.call(9_000, "LOCKINFO", "java")).get(11))) {
                Thread.sleep(5);
            }
        }
        later.join();
        check(fences[1] > fences[0], "the fence did not rise");

        fails(HeldLock.Lost.class, () -> {
            try (HeldLock lock = new HeldLock(redis, "java", 3_000, 0)) {
                client.call(9_000, "LOCKPROXY", "RELEASE", "java");
                while (lock.held()) {
                    Thread.onSpinWait();
                }
                lock.check();
            }
        });
        fails(HeldLock.Lost.class, () -> {
            try (HeldLock lock = new HeldLock(redis, "java", 10_000, 0)) {
                client.call(9_000, "LOCKPROXY", "RELEASE", "java");
            }
        });
        System.out.println("java " + System.getProperty("java.version") + " all ok");
    }
}
