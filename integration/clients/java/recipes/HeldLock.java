import java.util.List;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;

/**
 * A lock of lockproxy for try-with-resources, with any client. Times are milliseconds.
 *
 * <pre>
 * try (HeldLock lock = new HeldLock(redis, "report", 10_000, 5_000)) {
 *     for (Part part : parts) {
 *         lock.check();
 *         write(part, lock.fence);
 *     }
 * }
 * </pre>
 */
final class HeldLock implements AutoCloseable {
    /**
     * Sends a command, on a connection that no other thread uses meanwhile. With Jedis:
     * words -> pool.sendCommand(() -> words[0].getBytes(), Arrays.copyOfRange(words, 1, words.length))
     */
    interface Redis {
        Object call(String... words);
    }

    static final class Taken extends RuntimeException {}

    static final class Lost extends RuntimeException {}

    private static final ScheduledExecutorService RENEWALS = Executors.newScheduledThreadPool(1, work -> {
        Thread thread = new Thread(work, "lock renewals");
        thread.setDaemon(true);
        return thread;
    });

    final long fence;
    private final Redis redis;
    private final String key;
    private final String token;
    private final String ttl;
    private final long pause;
    private volatile long until; // of System.nanoTime
    private volatile boolean closed;

    /** Without wait it tries once. The client's read time-out is longer than wait. */
    HeldLock(Redis redis, String key, long ttl, long wait) {
        this.redis = redis;
        this.key = key;
        this.ttl = Long.toString(ttl);
        pause = ttl / 3;
        long sent = System.nanoTime();
        List<?> granted = (List<?>) (wait > 0 // WAIT 0 would wait for ever
                ? redis.call("LOCK", key, this.ttl, "FULL", "WAIT", Long.toString(wait))
                : redis.call("LOCK", key, this.ttl, "FULL"));
        if (granted == null) {
            throw new Taken();
        }
        Object first = granted.get(0);
        token = first instanceof byte[] bytes ? new String(bytes) : first.toString();
        fence = (Long) granted.get(1);
        until = sent + nanos((Long) granted.get(2));
        try {
            if (wait > 0) { // the time since it was sent went into waiting
                extend();
            }
            check();
        } catch (RuntimeException e) {
            redis.call("UNLOCK", key, token);
            throw e;
        }
        RENEWALS.schedule(this::renew, pause, TimeUnit.MILLISECONDS);
    }

    boolean held() {
        return until - System.nanoTime() > 0;
    }

    /** Throws Lost if the lock is lost. Call it before each step that cannot be undone. */
    void check() {
        if (!held()) {
            throw new Lost();
        }
    }

    private void extend() {
        long sent = System.nanoTime();
        List<?> reply = (List<?>) redis.call("EXTEND", key, token, ttl, "FULL");
        until = sent + nanos((Long) reply.get(1)); // of a lost lock validity is 0
    }

    private void renew() {
        if (closed || !held()) {
            return;
        }
        long next = pause;
        try {
            extend();
        } catch (RuntimeException e) { // no majority for the moment: again, until validity ends
            next = pause / 6;
        }
        RENEWALS.schedule(this::renew, next, TimeUnit.MILLISECONDS);
    }

    @Override
    public void close() {
        closed = true;
        boolean kept = held();
        try {
            kept &= redis.call("UNLOCK", key, token).equals(1L);
        } catch (RuntimeException e) {
            // The release goes on, or the lock runs out.
        }
        if (!kept) {
            throw new Lost();
        }
    }

    private static long nanos(long milliseconds) {
        return TimeUnit.MILLISECONDS.toNanos(milliseconds);
    }
}
