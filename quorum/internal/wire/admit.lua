-- KEYS[1] the state hash
-- ARGV[1] the record that must be there, '' for none
-- ARGV[2] '1' if the hash must have no other field
-- ARGV[3] the record that replaces it
-- ARGV[4] settings, '-' leaves the field
-- ARGV[5] known: '-' leaves the field, '' deletes it, admissions are merged into it
-- ARGV[6] durable: '-' leaves the field, '' deletes it
-- ARGV[7] the first value of the field writes, if durable is set and the field does not exist
-- ARGV[8] a number that no counter may be under, or ''
-- reply: 1 done; 0 not done, the hash has another record
-- This is the only script that changes a record.
if (redis.call('HGET', KEYS[1], 'record') or '') ~= ARGV[1] then
  return 0
end
if ARGV[2] == '1' and redis.call('HLEN', KEYS[1]) > 0 then
  return 0
end
-- The first write may fail, on a full master for example, and leaves all as it was.
if ARGV[5] == '' then
  redis.call('HDEL', KEYS[1], 'known')
elseif ARGV[5] ~= '-' then
  local known = mergeKnown(KEYS[1], ARGV[5])
  if type(known) == 'table' then
    return known
  end
end
-- Counters are written a hundred at a time: a command for each would take milliseconds.
if ARGV[8] ~= '' then
  local floor, have, raised = tonumber(ARGV[8]), {}, {}
  local text, all = string.format('%.0f', floor), redis.call('HGETALL', KEYS[1])
  for i = 1, #all, 2 do
    have[all[i]] = tonumber(all[i + 1])
  end
  for i = 0, 4095 do
    local field = tostring(i)
    if not have[field] or have[field] < floor then
      raised[#raised + 1] = field
      raised[#raised + 1] = text
    end
    if #raised == 200 or i == 4095 and #raised > 0 then
      redis.call('HSET', KEYS[1], unpack(raised))
      raised = {}
    end
  end
end
if ARGV[4] ~= '-' then
  redis.call('HSET', KEYS[1], 'settings', ARGV[4])
end
if ARGV[6] == '' then
  redis.call('HDEL', KEYS[1], 'durable')
elseif ARGV[6] ~= '-' then
  redis.call('HSET', KEYS[1], 'durable', ARGV[6])
  if not redis.call('HGET', KEYS[1], 'writes') then
    redis.call('HSET', KEYS[1], 'writes', ARGV[7])
  end
end
redis.call('HSET', KEYS[1], 'record', ARGV[3])
return 1
