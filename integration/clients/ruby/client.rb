# redis-rb's own ways of working, with lock commands among them. Usage: client.rb HOST PORT
require "redis"

HOST, PORT = ARGV[0], ARGV[1].to_i

def connect = Redis.new(host: HOST, port: PORT)
def check(what, got = nil) = what || raise("got #{got.inspect}")
def lock(r, key, *options) = r.call("LOCK", key, "30s", *options)
def unlock(r, key, token) = check((n = r.call("UNLOCK", key, token)) == 1, n)

r = connect
token = lock(r, "rb")
check(token.length == 57, token)
check(lock(r, "rb").nil?)
unlock(r, "rb", token)
begin
  r.call("LOCK", "rb", "x")
  raise "a bad ttl was accepted"
rescue Redis::CommandError => e
  check(e.message.include?("invalid expire time"), e)
end

readers = [lock(r, "rb", "SHARED"), lock(r, "rb", "SHARED")]
check(lock(r, "rb").nil?)
readers.each { |shared| unlock(r, "rb", shared) }
slots = [lock(r, "rb", "LIMIT", 2, "FULL"), lock(r, "rb", "LIMIT", 2, "FULL")]
check(slots.map { |full| full[3] }.sort == [0, 1], slots)
check(lock(r, "rb", "LIMIT", 2).nil?)
slots.each { |full| unlock(r, "rb", full[0]) }
both = lock(r, "rb", "KEYS", 1, "rb:other")
check(lock(r, "rb:other").nil?)
check((n = r.call("UNLOCK", "rb", both, "KEYS", 1, "rb:other")) == 1, n)
token = lock(r, "rb")
check((n = r.call("EXTEND", "rb", token, "30s", "SHARED")) == 1, n)
check((n = r.call("UNLOCK", "rb", token, "KEEP", "300ms")) == 1, n)
unlock(r, "rb", lock(r, "rb", "WAIT", "20s"))

replies = r.pipelined do |p|
  50.times do |i|
    p.set("rb:#{i}", i)
    p.call("LOCK", "rb:#{i}", "30s")
    p.get("rb:#{i}")
  end
end
50.times do |i|
  check(replies[3 * i] == "OK" && replies[3 * i + 2] == i.to_s, replies)
  unlock(r, "rb:#{i}", replies[3 * i + 1])
end

check((got = r.multi { |m| m.set("tx", 1); m.incr("tx") }) == ["OK", 2], got)
begin
  r.multi { |m| m.set("tx", "lost"); m.call("LOCK", "tx", "30s") }
  raise "LOCK ran in a transaction"
rescue Redis::CommandError => e
  check(e.message =~ /not allowed in transactions|EXECABORT/, e)
end
check(r.get("tx") == "2")

heard = []
listener = Thread.new do
  connect.subscribe("news") { |on| on.message { |_, text| heard << text; Thread.exit if heard.size == 10 } }
end
sleep 0.01 until r.pubsub("NUMSUB", "news") == ["news", 1]
10.times do
  token = lock(r, "news")
  r.publish("news", token)
  unlock(r, "news", token)
end
check(listener.join(20))
check(heard.all? { |text| text.length == 57 }, heard)

check((got = r.eval("return {KEYS[1], ARGV[1]}", keys: ["k"], argv: ["v"])) == ["k", "v"], got)
1000.times { |i| r.hset("scanned", "f#{i}", i) }
check(r.hscan_each("scanned").count == 1000)

r.set("sum", 0)
threads = 10.times.map do
  Thread.new do
    own = connect
    10.times do
      token = lock(own, "sum", "WAIT", "20s")
      n = own.get("sum").to_i
      own.set("sum", n + 1)
      unlock(own, "sum", token)
    end
  end
end
threads.each(&:join)
check(r.get("sum") == "100", r.get("sum"))

killer = connect
token = lock(r, "again")
killer.call("CLIENT", "KILL", "ID", r.call("CLIENT", "ID"))
sleep 0.2 # until the end has come: redis-rb sends a command again only if it fails at once
unlock(r, "again", token)
puts "redis-rb #{Redis::VERSION} all ok"
