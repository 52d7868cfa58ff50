import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/**
 * A lock of lockproxy for try-with-resources: save this file as HeldLock.java. Times are milliseconds.
 * Proxies is made once, of a function for each proxy. With Jedis and a JedisPool for each:
 * <pre>
 * HeldLock.Redis first = (timeout, words) -> {
 *     try (Jedis jedis = pool.getResource()) {
 *         jedis.getConnection().setSoTimeout(timeout);
 *         return jedis.sendCommand(() -> words[0].getBytes(), Arrays.copyOfRange(words, 1, words.length));
 *     }
 * };
 * HeldLock.Proxies proxies = new HeldLock.Proxies(first, second);
 * try (HeldLock lock = new HeldLock(proxies, "report", 10_000, 5_000)) {
 *     lock.check(); // before each step that cannot be undone
 *     write(report, lock.fence);
 * }
 * </pre>
 */
final class HeldLock implements AutoCloseable {
    /** Sends a command on a connection of its own, which it closes if no reply comes within timeout. */
    interface Redis {
        Object call(int timeout, String... words);
    }

    static final class Proxies {
        private final Redis[] all;
        private volatile int first;

        Proxies(Redis... all) {
            this.all = all;
        }

        /** Sends a command to the proxy in use. After an error the next one is in use. */
        Object ask(long timeout, String... words) {
            int at = first;
            try {
                return all[at].call((int) timeout, words);
            } catch (RuntimeException e) {
                first = (at + 1) % all.length;
                throw e;
            }
        }
    }

    static final class Taken extends RuntimeException {
        Taken(String key) { super(key); }
    }

    static final class Lost extends RuntimeException {
        Lost(String key) { super(key); }
    }

    final long fence;
    private final Proxies proxies;
    private final String key, token;
    private final long ttl;
    private final CountDownLatch ended = new CountDownLatch(1);
    private volatile long until; // of System.nanoTime

    /** Without wait it tries once. */
    HeldLock(Proxies proxies, String key, long ttl, long wait) throws InterruptedException {
        this.proxies = proxies;
        this.key = key;
        this.ttl = ttl;
        long start = System.nanoTime(), sent = start, step = Math.max(1000, Math.min(wait / 3, 10_000));
        List<?> granted = null;
        for (int failed = 0; granted == null; ) { // a proxy that hangs costs a step and a second
            sent = System.nanoTime();
            String[] lock = {"LOCK", key, "" + ttl, "FULL", "WAIT", "" + Math.max(1, Math.min(step, wait - (sent - start) / 1_000_000))};
            try { // WAIT 0 would wait for ever
                granted = (List<?>) proxies.ask(step + 1000, wait > 0 ? lock : Arrays.copyOf(lock, 4));
                if (granted == null && System.nanoTime() - start >= nanos(wait)) {
                    throw new Taken(key);
                }
            } catch (Taken e) {
                throw e;
            } catch (RuntimeException e) { // a refusal begins with a word like ERR or NOPERM
                boolean last = ++failed >= proxies.all.length && System.nanoTime() - start >= nanos(wait);
                if (last || ("" + e.getMessage()).matches("(?s)(?!NOQUORUM|TRYAGAIN)[A-Z]{3,} .*")) {
                    throw e;
                }
                Thread.sleep(50);
            }
        }
        token = granted.get(0) instanceof byte[] bytes ? new String(bytes) : granted.get(0).toString();
        fence = (Long) granted.get(1);
        until = (wait > 0 ? System.nanoTime() : sent) + nanos((Long) granted.get(2));
        if (wait > 0) { // the time since it was sent went into waiting
            extend();
        }
        check();
        Thread renewals = new Thread(this::renew, "lock " + key);
        renewals.setDaemon(true);
        renewals.start();
    }

    boolean held() {
        return until - System.nanoTime() > 0;
    }

    void check() {
        if (!held()) {
            throw new Lost(key);
        }
    }

    /** After an error it tries again, until the lock is lost or unlocked. */
    private void extend() throws InterruptedException {
        for (boolean done = false; !done && held(); ) {
            long sent = System.nanoTime();
            try {
                until = sent + nanos((Long) ((List<?>) proxies.ask(ttl / 4, "EXTEND", key, token, "" + ttl, "FULL")).get(1)); // lost: 0
                done = true;
            } catch (RuntimeException e) {
                done = ended.await(ttl / 20, TimeUnit.MILLISECONDS);
            }
        }
    }

    private void renew() {
        try {
            while (!ended.await(ttl / 3, TimeUnit.MILLISECONDS) && held()) {
                extend();
            }
        } catch (InterruptedException e) { // the lock runs out
        }
    }

    @Override
    public void close() {
        ended.countDown();
        check();
        for (int tries = 0; tries < 2; tries++) {
            boolean kept;
            try {
                kept = proxies.ask(500, "UNLOCK", key, token).equals(1L);
            } catch (RuntimeException e) {
                continue; // the lock runs out
            }
            if (!kept && tries == 0) { // the first UNLOCK may have done it, though no reply came
                throw new Lost(key);
            }
            return;
        }
    }

    private static long nanos(long milliseconds) {
        return TimeUnit.MILLISECONDS.toNanos(milliseconds);
    }
}
