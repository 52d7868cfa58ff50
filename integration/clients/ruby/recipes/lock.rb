# A block under a lock of lockproxy, with redis-rb. Times are milliseconds.
#
#   with_lock(redis, "report", ttl: 10_000, wait: 5_000) do |lock|
#     parts.each { |part| lock.check; write(part, lock.fence) }
#   end
require "redis"

class LockTaken < StandardError; end
class LockLost < StandardError; end

class HeldLock
  attr_reader :fence

  def initialize(redis, key, ttl, wait)
    @redis, @key, @ttl = redis, key, ttl
    options = wait > 0 ? ["WAIT", wait] : [] # WAIT 0 would wait for ever
    sent = now
    granted = redis.call("LOCK", key, ttl, "FULL", *options)
    raise LockTaken, key unless granted
    @token, @fence, validity = granted
    @until = sent + validity + wait
    @mutex, @changed, @over = Mutex.new, ConditionVariable.new, false
  end

  def extend_it
    sent = now
    _, validity = @redis.call("EXTEND", @key, @token, @ttl, "FULL")
    @until = sent + validity # of a lost lock validity is 0
  end

  def held? = now < @until

  # check raises LockLost if the lock is lost. Call it before each step that cannot be undone.
  def check
    raise LockLost, @key unless held?
  end

  def renew
    pause = @ttl / 3
    until over_within?(pause) || !held?
      begin
        extend_it
        pause = @ttl / 3
      rescue Redis::BaseError # no majority for the moment: again, until validity ends
        pause = @ttl / 20
      end
    end
  end

  # release reports whether the lock was held until now.
  def release
    held = held?
    @mutex.synchronize { @over = true and @changed.signal }
    @redis.call("UNLOCK", @key, @token) == 1 && held
  rescue Redis::BaseError
    held # the release goes on, or the lock runs out
  end

  private

  def over_within?(pause)
    @mutex.synchronize do
      @changed.wait(@mutex, pause / 1000.0) unless @over
      @over
    end
  end

  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC, :float_millisecond)
end

# with_lock runs a block under the lock of key and returns what it returns. Without wait it tries
# once. The timeout of redis is longer than wait. The lock has a connection of its own: threads
# that share one wait for each other, and renewals must not.
def with_lock(redis, key, ttl: 10_000, wait: 0)
  own = redis.dup
  lock = HeldLock.new(own, key, ttl, wait)
  begin
    lock.extend_it if wait > 0 # the time since it was sent went into waiting
    lock.check
    Thread.new { lock.renew }
    result = yield lock
  ensure
    held = lock.release
  end
  raise LockLost, key unless held
  result
ensure
  own&.close
end
