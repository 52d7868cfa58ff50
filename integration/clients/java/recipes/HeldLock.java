// A lock of lockproxy for try-with-resources: save this file as HeldLock.java. Milliseconds.
//   HeldLock.Redis first = (timeout, name, words) -> { // with a JedisPool for each proxy
//       try (Jedis jedis = pool.getResource()) {
//           jedis.getConnection().setSoTimeout(timeout);
//           return jedis.sendCommand(() -> name.getBytes(), words);
//       }
//   };
//   HeldLock.Proxies proxies = new HeldLock.Proxies(first, second); // once in a process
//   try (HeldLock lock = new HeldLock(proxies, "report", 10_000, 5_000)) {
//       lock.check(); // before each step that cannot be undone
//       write(report, lock.fence);
//   }
import java.util.*;

final class HeldLock implements AutoCloseable {
    static final class Taken extends Exception { Taken(String key) { super(key); } }
    static final class Lost extends Exception { Lost(String key) { super(key); } }
    /** Sends a command on a connection of its own, which it closes if no reply comes in time. */
    interface Redis { Object call(int timeout, String name, String... words); }

    static final class Proxies {
        private final Redis[] all;
        private volatile int first;
        Proxies(Redis... all) { this.all = all; }

        /** Sends a command to the proxy in use. After an error the next one is in use. */
        Object ask(long timeout, String name, String... words) {
            int at = first;
            try {
                return all[at].call((int) timeout, name, words);
            } catch (RuntimeException e) {
                first = (at + 1) % all.length;
                throw e;
            }
        }
    }

    final long fence;
    private final String key, token;
    private final Proxies proxies;
    private final Timer renewals;
    private volatile long until, renewal; // when the lock ends, and when it is to be renewed

    /** Without wait it tries once. The lock is renewed until it is closed. */
    HeldLock(Proxies proxies, String key, long ttl, long wait)
            throws InterruptedException, Taken, Lost {
        this.proxies = proxies;
        this.key = key;
        long end = now() + wait, step = Math.max(1000, Math.min(wait / 3, 10_000)), sent = 0;
        List<?> granted = null;
        for (int failed = 0; granted == null; ) { // a proxy that hangs costs a step and a second
            sent = now();
            String left = "" + Math.max(1, Math.min(step, end - sent)); // WAIT 0 would have no end
            String[] once = {key, "" + ttl, "FULL"}, waits = {key, "" + ttl, "FULL", "WAIT", left};
            try {
                granted = (List<?>) proxies.ask(step + 1000, "LOCK", wait > 0 ? waits : once);
                if (granted == null && now() >= end) throw new Taken(key);
            } catch (RuntimeException e) { // a refusal begins with a word like ERR or NOPERM
                boolean refused = ("" + e.getMessage()).matches("(?!NOQUORUM|TRY)[A-Z]{3,} .*");
                if (refused || ++failed >= proxies.all.length && now() >= end) throw e;
                Thread.sleep(50);
            }
        }
        token = granted.get(0) instanceof byte[] b ? new String(b) : granted.get(0).toString();
        fence = (Long) granted.get(1);
        until = (wait > 0 ? now() : sent) + (Long) granted.get(2);
        renewal = wait > 0 ? sent : sent + ttl / 3; // at once if the time went into waiting
        for (renew(ttl); renewal == sent && held(); renew(ttl)) Thread.sleep(ttl / 20);
        check();
        renewals = new Timer("lock " + key, true);
        renewals.schedule(new TimerTask() { public void run() { renew(ttl); } }, 0, ttl / 20 + 1);
    }

    boolean held() { return now() < until; }
    void check() throws Lost { if (!held()) throw new Lost(key); }
    private static long now() { return Math.floorDiv(System.nanoTime(), 1_000_000); }

    private void renew(long ttl) {
        long sent = now();
        if (sent < renewal || !held()) return;
        try {
            Object reply = proxies.ask(ttl / 4, "EXTEND", key, token, "" + ttl, "FULL");
            until = sent + (Long) ((List<?>) reply).get(1); // of a lost lock validity is 0
            renewal = sent + ttl / 3;
        } catch (RuntimeException e) {} // it is tried again until the lock is lost
    }

    @Override
    public void close() throws Lost {
        renewals.cancel();
        check();
        for (int tries = 0; tries < 2; tries++) {
            try { // the first UNLOCK may have done it, though no reply came
                if (proxies.ask(500, "UNLOCK", key, token).equals(1L) || tries > 0) return;
                throw new Lost(key);
            } catch (RuntimeException e) {} // the lock runs out
        }
    }
}
