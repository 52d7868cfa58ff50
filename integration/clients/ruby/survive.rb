# lock.rb while proxies and masters die. Usage: survive.rb count|hold NAME FOLDER ADDRESS...
#
# count adds 1 to the file counter under a lock until there is a file stop, and writes how often it
# did so. hold keeps a lock until it is lost. The test reads the files and the last line.
require_relative "recipes/lock"

ROLE, NAME, FOLDER, *ADDRESSES = ARGV
PROXIES = Proxies.new(*ADDRESSES.map { |address| "redis://#{address}" })

def count
  done = 0
  until File.exist?("#{FOLDER}/stop")
    begin
      with_lock(PROXIES, "counter", ttl: 2_000, wait: 15_000) do |lock|
        n = File.read("#{FOLDER}/counter").to_i
        sleep 0.005
        lock.check
        File.write("#{FOLDER}/counter", n + 1)
        File.write("#{FOLDER}/done.#{NAME}", done += 1)
      end
    rescue LockTaken, LockLost => e
      warn e.inspect
    end
    sleep 0.02
  end
end

def hold
  with_lock(PROXIES, "hold:#{NAME}", ttl: 20_000, wait: 5_000) do |lock|
    File.write("#{FOLDER}/held.#{NAME}", lock.fence)
    loop do
      sleep 0.01
      lock.check
    end
  end
rescue LockLost => e
  raise unless e.message.include?("hold:#{NAME}")
end

ROLE == "count" ? count : hold
puts "all ok"
