# A block under a lock of lockproxy, with redis-rb: save this file as lock.rb. Milliseconds.
#
#   PROXIES = Proxies.new("redis://10.0.0.1:6380", "redis://10.0.0.2:6380")
#   with_lock(PROXIES, "report", ttl: 10_000, wait: 5_000) do |lock|
#     parts.each { |part| lock.check; write(part, lock.fence) }
#   end
require "redis"

class LockTaken < StandardError; end # another holds the lock
class LockLost < StandardError; end # the lock is not held any more

class Proxies
  attr_reader :urls
  def initialize(*urls)
    @urls, @first, @idle, @mutex = urls, 0, Hash.new { |idle, of| idle[of] = [] }, Mutex.new
  end

  # ask sends a command to the proxy in use. After an error the next one is in use.
  def ask(timeout, *command)
    at = @first
    redis = @mutex.synchronize { @idle[[at, timeout]].pop } || # one for each call
            Redis.new(url: @urls[at], connect_timeout: 0.5, timeout: timeout, reconnect_attempts: 0)
    reply = redis.call(*command)
    @mutex.synchronize { @idle[[at, timeout]].push(redis) }
    reply
  rescue Redis::BaseError
    @first = (at + 1) % @urls.size
    redis.close
    raise
  end
end

class HeldLock
  attr_reader :fence
  def initialize(proxies, key, ttl, wait)
    @proxies, @key, @ttl, @ended, @until = proxies, key, ttl, false, 0
    finish, failed, granted, sent = now + wait, 0, nil, nil
    step = [1000, [wait / 3, 10_000].min].max # a proxy that hangs costs a step and a second
    until granted
      sent = now
      options = wait > 0 ? ["WAIT", [1, [step, finish - sent].min.to_i].max] : [] # 0: no end
      begin
        granted = proxies.ask(step / 1000.0 + 1, "LOCK", key, ttl, "FULL", *options)
        raise LockTaken, key if !granted && now >= finish
      rescue Redis::BaseError => e
        failed += 1
        refused = e.is_a?(Redis::CommandError) && e.message !~ /\A(NOQUORUM|TRYAGAIN) /
        raise if refused || failed >= proxies.urls.size && now >= finish
        sleep 0.05
      end
    end
    @token, @fence, validity = granted
    @until = (wait > 0 ? now : sent) + validity
    extend_it if wait > 0 # the time since it was sent went into waiting
    check
    Thread.new { extend_it until over_within?(ttl / 3) || !held? }
  end

  def held? = now < @until

  # check raises LockLost if the lock is lost. Call it before each step that cannot be undone.
  def check = held? || raise(LockLost, @key)

  # extend_it renews the lock. After an error it tries again, until the lock is lost or unlocked.
  def extend_it
    loop do
      return unless held?
      sent = now
      validity = @proxies.ask(@ttl / 4000.0, "EXTEND", @key, @token, @ttl, "FULL")[1]
      return @until = sent + validity # of a lost lock it is 0
    rescue Redis::BaseError
      return if over_within?(@ttl / 20)
    end
  end

  def release
    @ended = true
    check
    2.times do |try| # the first UNLOCK may have done it, though no reply came
      return @proxies.ask(0.5, "UNLOCK", @key, @token) == 1 || try > 0 || raise(LockLost, @key)
    rescue Redis::BaseError # the lock runs out
    end
  end

  private def now = Process.clock_gettime(Process::CLOCK_MONOTONIC, :float_millisecond)

  private def over_within?(pause)
    (pause / 10.0).ceil.times { @ended || sleep(0.01) }
    @ended
  end
end

# with_lock runs a block under the lock of key and returns its value. Without wait it tries once.
def with_lock(proxies, key, ttl: 10_000, wait: 0)
  lock = HeldLock.new(proxies, key, ttl, wait)
  yield lock
ensure
  lock&.release
end
