# What docs/recipes.md shows for Ruby, against a proxy with admin-commands. Usage: recipes.rb HOST PORT
require_relative "recipes/lock"

HOST, PORT = ARGV[0], ARGV[1].to_i
def connect = Redis.new(host: HOST, port: PORT, timeout: 60)
def check(what, got = nil) = what || raise("got #{got.inspect}")

def raises(kind)
  yield
rescue kind
  nil
else
  raise "no #{kind}"
end

ADMIN = connect
R = Proxies.new("redis://#{HOST}:#{PORT}")
def info(key) = Hash[*ADMIN.call("LOCKINFO", key).to_a.flatten] # a map in RESP3
def free?(key) = ADMIN.call("LOCKINFO", key).nil?
def take_away(key) = check(ADMIN.call("LOCKPROXY", "RELEASE", key) == 1)

got = with_lock(R, "rb", ttl: 3_000) do |lock|
  raises(LockTaken) { with_lock(R, "rb") { raise "two hold the lock" } }
  sleep 3.5 # longer than the ttl: it is renewed
  lock.check
  check(!free?("rb"))
  "done"
end
check(got == "done" && free?("rb"), got)

waits = nil
first = with_lock(R, "rb") do |lock|
  waits = Thread.new { with_lock(R, "rb", wait: 20_000) { |second| second.check && second.fence } }
  sleep 0.005 until info("rb")["waiting"] == 1
  lock.fence
end
check(waits.value > first && free?("rb"))

raises(ZeroDivisionError) { with_lock(R, "rb") { 1 / 0 } }
check(free?("rb"))
raises(LockLost) do
  with_lock(R, "rb", ttl: 3_000) do |lock|
    take_away("rb")
    sleep 0.005 while lock.held?
    lock.check
    raise "went on without the lock"
  end
end
raises(LockLost) { with_lock(R, "rb") { take_away("rb") } }
check(free?("rb"))
puts "redis-rb #{Redis::VERSION} all ok"
