// A lock of lockproxy for StackExchange.Redis 2, .NET 8: save this file as HeldLock.cs.
//
//   var proxies = new Proxies("10.0.0.1:6380", "10.0.0.2:6380"); // once in a process
//   await using var held = await HeldLock.Take(proxies, "report", TimeSpan.FromSeconds(10), TimeSpan.FromSeconds(5));
//   held.Check(); // before each step that cannot be undone
//   await Write("report", held.Fence, held.Lost); // a token that is cancelled when the lock is lost
using System.Collections.Concurrent;
using System.Diagnostics;
using System.Text.RegularExpressions;
using StackExchange.Redis;

public class LockTakenException(string key) : Exception(key); // another holds the lock
public class LockLostException(string key) : Exception(key); // the lock is not held any more

public sealed class Proxies(params string[] addresses)
{
    private readonly ConcurrentBag<ConnectionMultiplexer>[] idle = addresses.Select(_ => new ConcurrentBag<ConnectionMultiplexer>()).ToArray();
    private volatile int first;
    public int Count => addresses.Length;

    /// Sends a command to the proxy in use. After an error the next one is in use. Each command has a
    /// connection of its own, which is closed after a time-out, so that no LOCK waits there any more.
    public async Task<RedisResult> Ask(TimeSpan timeout, string command, params object[] words)
    {
        int at = first;
        ConnectionMultiplexer? connection = null;
        try
        {
            if (!idle[at].TryTake(out connection))
            {
                var options = ConfigurationOptions.Parse(addresses[at]);
                (options.ConnectRetry, options.ConnectTimeout, options.AsyncTimeout) = (0, 500, 30_000);
                options.BacklogPolicy = BacklogPolicy.FailFast; // a command is sent now or never
                connection = await ConnectionMultiplexer.ConnectAsync(options);
            }
            var reply = await connection.GetDatabase().ExecuteAsync(command, words).WaitAsync(timeout);
            idle[at].Add(connection);
            return reply;
        }
        catch (Exception e) when (e is RedisException or TimeoutException)
        {
            first = (at + 1) % addresses.Length;
            connection?.Dispose();
            throw;
        }
    }
}

public sealed class HeldLock : IAsyncDisposable
{
    private readonly Proxies proxies;
    private readonly string key, token;
    private readonly TimeSpan ttl;
    private readonly CancellationTokenSource lost = new(), ended = new();
    private TimeSpan until; // of the clock
    private static readonly Stopwatch clock = Stopwatch.StartNew();
    public long Fence { get; }
    public CancellationToken Lost => lost.Token;

    private HeldLock(Proxies proxies, string key, TimeSpan ttl, RedisResult granted, TimeSpan from)
    {
        (this.proxies, this.key, this.ttl) = (proxies, key, ttl);
        (token, Fence) = ((string)granted[0]!, (long)granted[1]);
        Hold(from + TimeSpan.FromMilliseconds((long)granted[2]));
    }

    /// Takes the lock and renews it until it is disposed of. With a wait of zero it tries once.
    public static async Task<HeldLock> Take(Proxies proxies, string key, TimeSpan ttl, TimeSpan wait)
    {
        var end = clock.Elapsed + wait;
        var step = Math.Clamp(wait.TotalMilliseconds / 3, 1000, 10_000); // a proxy that hangs costs a step and a second
        for (int failed = 0; ;)
        {
            var sent = clock.Elapsed;
            var words = new List<object> { key, (long)ttl.TotalMilliseconds, "FULL" };
            if (wait > TimeSpan.Zero) // WAIT 0 would wait for ever
                words.AddRange(["WAIT", (long)Math.Max(1, Math.Min(step, (end - sent).TotalMilliseconds))]);
            try
            {
                var granted = await proxies.Ask(TimeSpan.FromMilliseconds(step + 1000), "LOCK", words.ToArray());
                if (granted.IsNull && clock.Elapsed >= end) throw new LockTakenException(key);
                if (granted.IsNull) continue;
                var held = new HeldLock(proxies, key, ttl, granted, wait > TimeSpan.Zero ? clock.Elapsed : sent);
                if (wait > TimeSpan.Zero) await held.Extend(); // the time since it was sent went into waiting
                held.Check();
                _ = held.Renew();
                return held;
            }
            catch (Exception e) when (e is RedisException or TimeoutException)
            {
                bool last = ++failed >= proxies.Count && clock.Elapsed >= end;
                if (last || e is RedisServerException && !Regex.IsMatch(e.Message, "^(NOQUORUM|TRYAGAIN) ")) throw;
                await Task.Delay(50);
            }
        }
    }

    public void Check()
    {
        if (clock.Elapsed >= until) throw new LockLostException(key);
    }

    private void Hold(TimeSpan time)
    {
        until = time;
        var left = time - clock.Elapsed;
        lost.CancelAfter(left > TimeSpan.Zero ? left : TimeSpan.Zero);
    }

    /// After an error it tries again, until the lock is lost or unlocked.
    private async Task Extend()
    {
        while (clock.Elapsed < until && !ended.IsCancellationRequested)
        {
            var sent = clock.Elapsed;
            try
            {
                var reply = await proxies.Ask(ttl / 4, "EXTEND", key, token, (long)ttl.TotalMilliseconds, "FULL"); // of a lost lock validity is 0
                if (!ended.IsCancellationRequested) Hold(sent + TimeSpan.FromMilliseconds((long)reply[1]));
                return;
            }
            catch (Exception e) when (e is RedisException or TimeoutException) { await Task.Delay(ttl / 20); }
        }
    }

    private async Task Renew()
    {
        while (clock.Elapsed < until && !ended.IsCancellationRequested)
        {
            await Task.Delay(ttl / 3, ended.Token).ContinueWith(_ => { });
            await Extend();
        }
    }

    public async ValueTask DisposeAsync()
    {
        ended.Cancel();
        lost.CancelAfter(Timeout.InfiniteTimeSpan);
        Check();
        for (int tries = 0; tries < 2; tries++)
        {
            try
            {
                bool kept = (long)await proxies.Ask(TimeSpan.FromSeconds(0.5), "UNLOCK", key, token) == 1 || tries > 0; // the first UNLOCK may have done it
                if (!kept) throw new LockLostException(key);
                return;
            }
            catch (Exception e) when (e is RedisException or TimeoutException) { } // the lock runs out
        }
    }
}
