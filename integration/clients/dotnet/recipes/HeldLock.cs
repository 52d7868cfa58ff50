// A lock of lockproxy for StackExchange.Redis 2 (.NET 8): save it as HeldLock.cs. Milliseconds.
//
//   var proxies = new Proxies("10.0.0.1:6380", "10.0.0.2:6380"); // once in a process
//   await proxies.Lock("report", 10_000, 5_000, async held =>
//   {
//       held.Check(); // before each step that cannot be undone
//       await Write("report", held.Fence, held.Lost); // Lost is cancelled when the lock is lost
//   });
using System.Collections.Concurrent;
using System.Diagnostics;
using System.Text.RegularExpressions;
using StackExchange.Redis;

public class LockTakenException(string key) : Exception(key); // another holds the lock
public class LockLostException(string key) : Exception(key); // the lock is not held any more
public record HeldLock(long Fence, Action Check, CancellationToken Lost);

public sealed class Proxies(params string[] addresses)
{
    private const string options = ",connectRetry=0,connectTimeout=500,asyncTimeout=30000";
    private readonly ConcurrentBag<ConnectionMultiplexer>[] idle =
        addresses.Select(_ => new ConcurrentBag<ConnectionMultiplexer>()).ToArray();
    private readonly Stopwatch clock = Stopwatch.StartNew();
    private volatile int first;
    private long Now => clock.ElapsedMilliseconds;

    // Sends a command to the proxy in use. After an error the next one is in use, and the
    // connection, which is not shared, is closed, so that no LOCK waits there any more.
    private async Task<(RedisResult?, Exception?)> Ask(int time, string name, params object[] args)
    {
        var (at, connection) = (first, (ConnectionMultiplexer?)null);
        try
        {
            if (!idle[at].TryTake(out connection)) // a command is sent now or never
                connection = await ConnectionMultiplexer.ConnectAsync(addresses[at] + options,
                    o => o.BacklogPolicy = BacklogPolicy.FailFast);
            var sent = connection.GetDatabase().ExecuteAsync(name, args);
            var reply = await sent.WaitAsync(TimeSpan.FromMilliseconds(time));
            idle[at].Add(connection);
            return (reply, null);
        }
        catch (Exception e) when (e is RedisException or TimeoutException)
        {
            first = (at + 1) % addresses.Length;
            connection?.Dispose();
            return (null, e);
        }
    }

    // Runs work under the lock of key, and renews it meanwhile. Without wait it tries once.
    public async Task Lock(string key, int ttl, int wait, Func<HeldLock, Task> work)
    {
        var (start, step) = (Now, Math.Clamp(wait / 3, 1000, 10_000));
        RedisResult? granted = null;
        for (var tries = 1; granted is not { IsNull: false }; tries++) // a hang costs a step
        {
            var left = Math.Clamp(start + wait - Now, 1, step); // WAIT 0 would wait for ever
            object[] words = wait > 0 ? [key, ttl, "FULL", "WAIT", left] : [key, ttl, "FULL"];
            (granted, var error) = await Ask(step + 1000, "LOCK", words);
            var late = Now >= start + wait;
            if (granted is { IsNull: true } && late) throw new LockTakenException(key);
            var refused = error is RedisServerException &&
                !Regex.IsMatch(error.Message, "^(NOQUORUM|TRYAGAIN) ");
            if (refused || error != null && late && tries >= addresses.Length) throw error!;
            if (error != null) await Task.Delay(50);
        }
        var (token, next, until) = ((string)granted[0]!, 0, 0L);
        var (lost, over) = (new CancellationTokenSource(), new CancellationTokenSource());
        void Check() { if (Now >= until) throw new LockLostException(key); }
        void Hold(long end) => lost.CancelAfter((int)Math.Max(0, (until = end) - Now));
        async Task Renew() // of a lost lock validity is 0; after an error it is called again soon
        {
            var sent = Now;
            var (reply, _) = await Ask(ttl / 4, "EXTEND", key, token, ttl, "FULL");
            next = reply == null ? ttl / 20 : ttl / 3;
            if (reply != null && !over.IsCancellationRequested) Hold(sent + (long)reply[1]);
        }
        async Task Run() { for (; Now < until; await Renew()) await Task.Delay(next, over.Token); }
        var waited = Now - start > ttl / 10; // then an EXTEND tells how much is left
        Hold(waited ? Now + ttl : start + (long)granted[2]);
        for (next = waited ? 0 : ttl / 3; next < ttl / 3 && Now < until; await Renew())
            await Task.Delay(next);
        Check();
        _ = Run();
        try
        {
            await work(new HeldLock((long)granted[1], Check, lost.Token));
        }
        finally
        {
            over.Cancel();
            lost.CancelAfter(Timeout.Infinite);
            Check();
            var (kept, _) = await Ask(300, "UNLOCK", key, token);
            if (kept == null) await Ask(200, "UNLOCK", key, token); // the first may have done it
            if ((long?)kept == 0) throw new LockLostException(key); // without a reply it runs out
        }
    }
}
