-- A packet of lock operations. Most are releases and acquires of exclusive locks. They come first,
-- in columns, and are carried out together, because each command costs as much as an operation. All
-- others follow one by one (others.lua).
-- KEYS[1] the state hash: record and counters; then the locks of the operations, one for each but
--   for acquire_keys and raise_keys, which have several
-- ARGV[1] the record under which this master votes, '' for any
-- ARGV[2] four characters, '0' plus the number of operations tell, release, acquire and acquire of
--   clients that wait; then in digits the number of counters that other operations use, if any
-- ARGV[3] when the first of the operations that set keys is too old, ARGV[4] when the first of them
--   was asked for; in microseconds since 1970 by this clock, at the latest. Both '': none is too old
-- then a secret for each of the first two. Both delete the lock; only the first publishes the
--   release. No two are of the same token
-- then the columns of the acquires, those of waiting clients last. They set the lock if the key does
--   not exist: first all secrets, each with the owner after it, then the fields, then the fields of
--   other operations, then the ttls, then the waits of waiting clients
-- then for each other operation its name, the number of its arguments and these:
--   acquire_shared secret ttl field owner waits   joins the readers, or is the first
--   acquire_slot   secret ttl field owner waits limit first second
--                  takes a free slot under limit, one of the two if possible
--   acquire_keys   secret ttl owner waits field ...   locks as many keys as fields, all or none
--   raise          secret fence field       the lock gets this fence, the counter is at least that
--   raise_keys     secret fence field ...   the same for as many keys as fields, all or none
--   top_up         secret ttl field fence owner mode within
--                  acquires with this fence, or extends the lock of the secret. mode is 'exclusive',
--                  'shared' or the number of a slot. It is too old after so many milliseconds
--   extend         secret ttl         raises the end of the lock, never lowers it
--   refresh        secret ttl end     an exclusive lock ends ttl and up to 7 ms from now. It ends
--                  earlier than before only if it had this end: in ms by this clock, -1 for ever, 0
--                  matches none
--   share          secret ttl field   makes an exclusive lock a shared one, and extends it
--   check          secret
--   release, tell  secret             after others of the same token, or if columns are no place
--   leave          secret             releases and publishes, most likely one of several holders
--   keep           secret ttl         releases and publishes, but the place stays closed for ttl
--   fade           secret ttl         the lock ends at most ttl from now
--   inspect
--   free                              deletes any lock, and publishes the release
-- ttl and waits are milliseconds, a fence has 16 digits, field names a counter, '' without fencing.
-- reply: {0 not admitted, or 1 and the number of packets that a durable master has counted; seconds,
--   microseconds, a result for each operation}. The results:
--   acquire, acquire_keys  the fence, 0 without fencing
--   acquire_shared, acquire_slot  the first 20 bytes of the holder's entry: mode, slot and fence
--   any acquire, refused: -2 - left of an existing key of any type, which is not touched: it lives left
--      milliseconds more, for ever if left is -1. If all slots are taken, left is the time
--      until the first holder ends
--   raise, raise_keys, those from check to fade, free  1 done; 0 the secret does not hold the key.
--      check and keep answer 1 + slot
--   top_up  1 set; 2 the secret held it, until then at least; 0 something else is there
--   extend, share  fence and owner, of one of several holders its entry; 0 as above
--   refresh  the same, and the low 3 bits of the end are one more than those of the end before;
--      '>', the end, a blank, fence and owner if the lock ends later and is not changed
--   inspect  null: no key; 'left value', left -1 for ever, value cut to 640 bytes; OTHER: no lock;
--      {'shared' or 'limit', left, number of holders, then of at most 128 of them: secret, entry,
--      left}
-- An error is the result of one operation and leaves the others alone. NOTADMITTED: the record
-- differs, and the operation votes: all do but those from release to fade, and free. TOOLATE: any
-- acquire, after 99 % of its ttl, and a top_up, after within, counted from when the packet's oldest
-- was asked for. The locks of its token may have ended elsewhere, so it sets no key. Counters
-- are whole numbers up to (TIME in ms + 86400000) * 2048, under 2^53; a larger one is an error. An
-- operation that uses such a counter, or would raise a counter over this limit, answers an error.
--
-- The keys of locks (ends are by this clock, in ms):
--   exclusive  a string: secret, fence, owner
--   shared, limit  a sorted set. Its members and their scores:
--     '=' + secret -> 1000 * end + place    one for each holder, who holds the lock until then.
--                       The place is the slot, 999 for a reader
--     secret + entry    mode (S or L), slot (3 digits), fence, owner. ZRANGEBYSCORE finds it at
--                       -1000 - slot, for a reader at -1 - the number of six hex digits of the secret
--     'lockproxy-shared' -> 0, or 'lockproxy-limit' -> the largest limit asked for
--     Only the score of '=' + secret decides who holds what. The key expires with the last holder.
-- A secret that begins with 'kept' is of no token: its place is closed for a while (keep).
-- Intents: a client that waits for a key held in another mode leaves the name of its own mode at
-- lockproxy:intent:<key>, for the time that waits says ('': it does not wait). Until then no other
-- client joins the holders. It is a hint.
--
-- The columns are one stretch without functions: to make one costs as much as an operation. The
-- other operations are made when the first of them comes. After TIME no command may throw, or
-- operations that were carried out would get no answer.
local pcall, format, type, tonumber, sub = redis.pcall, string.format, type, tonumber, string.sub
local KEYS, ARGV, state = KEYS, ARGV, KEYS[1]
local aloud, quiet, asking, waiting = string.byte(ARGV[2], 1, 4)
aloud, asking = aloud - 48, asking - 48
local releases, acquires = aloud + quiet - 48, asking + waiting - 48
local others = tonumber(sub(ARGV[2], 5)) or 0 -- counters that other operations use
local fields = 4 + releases + acquires -- the first field comes after this place
local ttls = fields + acquires + others
local waits = ttls + acquires - asking -- those of clients that wait are the last
local now = redis.call('TIME')
local have = pcall('HMGET', state, 'record', 'writes', unpack(ARGV, fields + 1, ttls))
local admitted, refusal = ARGV[1] == '' or have[1] == ARGV[1], nil
if not admitted then
  refusal = {err = 'NOTADMITTED the record of this master has changed'}
end
-- A durable master counts its packets: one that comes back with a lower number lost writes. Packets
-- of releases that come before it votes again do not count: they would make up for lost ones.
local writes = ARGV[1] ~= '' and admitted and have[2] and tonumber(have[2]) or 0
if writes > 0 then
  local set = pcall('HSET', state, 'writes', format('%.0f', writes + 1))
  if type(set) == 'number' then
    writes = writes + 1
  else
    refusal = refusal or set
  end
end
-- Results take the places of keys: so the table need not grow.
local out = {admitted and 1 + writes or 0, tonumber(now[1]), tonumber(now[2]),
  unpack(KEYS, 2, releases + acquires + 1)}
-- The age of the oldest operation that sets keys, if any of them may be too old.
local age = ARGV[3] ~= '' and out[2] * 1000000 + out[3] - ARGV[3] > 0 and out[2] * 1000000 + out[3] - ARGV[4]
local tooLate = age and {err = 'TOOLATE the request came when its ttl was almost over'}
-- A master publishes only if a proxy listens. Each listener also subscribes to one of these channels,
-- so that the names of the channels of keys are made only then.
local hears = pcall('PUBSUB', 'NUMSUB', 'lockproxy:released:', 'lockproxy:changed')
local waited, followed, news = (hears[2] or 0) > 0, (hears[4] or 0) > 0, nil
if waited or followed then
  news = {freed = {}, by = {}, changes = {}} -- keys: released, with which secret; changed otherwise
end
-- %d is faster, but right only where C has a long of 64 bits. To ask pays off with a few fences.
local digits = '%.0f'
if acquires > 4 and format('%d', 9007199254740991) == '9007199254740991' then
  digits = '%d'
end
local seen, written = {}, nil -- what counters have been raised to, and the reply to that
local tools -- of the other operations
-- others.lua comes here.

if releases > 0 then
  local deleted = {}
  for i = 1, releases do
    local key, secret, result = KEYS[i + 1], ARGV[i + 4], 0
    local value = pcall('GETRANGE', key, '0', '39')
    if value == secret then
      deleted[#deleted + 1] = key
      result = deleted
    elseif type(value) == 'table' then -- an error, or several holders
      tools = tools or makeTools(out, news)
      result = tools.release(key, secret, i <= aloud)
    end
    out[i + 3] = result
  end
  local done = deleted[1] and pcall('DEL', unpack(deleted))
  for i = 1, releases do
    if out[i + 3] == deleted then
      out[i + 3] = type(done) == 'table' and done or 1
      if waited and i <= aloud and out[i + 3] == 1 then
        news.freed[#news.freed + 1] = KEYS[i + 1]
        news.by[#news.freed] = ARGV[i + 4]
      end
    end
  end
end

if acquires > 0 then
  local limit = (out[2] * 1000 + (out[3] - out[3] % 1000) / 1000 + 86400000) * 2048
  limit = limit < 9007199254740991 and limit or 9007199254740991
  local zeros = '0000000000000000'
  local numbers, n = {unpack(ARGV, fields - acquires + 1, fields + acquires)}, 0 -- as large as it can become
  for i = 1, acquires do
    local key, field, fence, text, result = KEYS[releases + i + 1], ARGV[fields + i], 0, '', refusal
    if age and age > 990 * ARGV[ttls + i] then
      result = result or tooLate
    end
    if field ~= '' and not result then
      local had = seen[field] or have[i + 2]
      had = had and tonumber(had) or had == false and 0 or -1
      if had >= 0 and had < limit and had % 1 == 0 then
        fence = had + 1
        text = format(digits, fence)
      elseif had >= limit then
        result = {err = 'ERR a fencing counter is more than a day ahead of the clock'}
      else
        result = have.err and have or {err = 'ERR a fencing counter is no number under 2^53 - 1'}
      end
    end
    if not result then
      local value = ARGV[fields - acquires + i]
      value = sub(value, 1, 40) .. sub(zeros, #text + 1) .. text .. sub(value, 41)
      local set = pcall('SET', key, value, 'NX', 'PX', ARGV[ttls + i])
      if set and not set.err then
        result = fence
        if fence > 0 then
          seen[field], numbers[n + 1], numbers[n + 2] = fence, field, text
          n = n + 2
        end
        if followed then
          news.changes[#news.changes + 1] = key
        end
        if i > asking then
          pcall('DEL', 'lockproxy:intent:' .. key)
        end
      else
        result = pcall('PTTL', key)
        if result == -2 then
          result = set
        elseif type(result) == 'number' then
          result = -2 - result
          if i > asking and pcall('TYPE', key).ok == 'zset' then -- several may hold it
            tools = tools or makeTools(out, news)
            result = tools.refuse(key, 'exclusive', ARGV[waits + i])
          end
        end
      end
    end
    out[releases + i + 3] = result
  end
  written = n > 0 and pcall('HSET', state, unpack(numbers, 1, n))
  for i = releases + 4, type(written) == 'table' and releases + acquires + 3 or 0 do
    if type(out[i]) == 'number' and out[i] >= 0 then
      out[i] = written
    end
  end
end

if ARGV[waits + acquires + 1] then
  tools = tools or makeTools(out, news)
  -- A field that is written as it is shows before any operation that counters can be written, which
  -- comes after all: no lock may be held with a number that was not counted.
  local first = others > 0 and ARGV[fields + acquires + 1] or ''
  if first ~= '' and not refusal and not have.err and type(written) ~= 'number' then
    written = written or pcall('HSET', state, have[1] and 'record' or first, have[1] or have[acquires + 3] or '0')
  end
  for i = fields + acquires + 1, ttls do
    local field = ARGV[i]
    tools.know(field, have.err and have or type(written) == 'table' and written or seen[field] or have[i - fields + 2])
  end
  tools.carryOut(refusal, waits + acquires + 1, releases + acquires, age, tooLate)
end

-- A user who may not ask or publish still releases.
if news then
  local function publish(kind, keys, secrets)
    local channels = {}
    for i = 1, #keys do
      channels[i] = kind .. keys[i]
    end
    local there = keys[1] and pcall('PUBSUB', 'NUMSUB', unpack(channels))
    for i = 1, #keys do
      if (there[2 * i] or 0) > 0 then
        local of = secrets[i]
        pcall('PUBLISH', channels[i], of and sub(redis.sha1hex(of), 1, 16) or '')
      end
    end
  end
  publish('lockproxy:released:', news.freed, news.by)
  if followed then
    publish('lockproxy:changed:', news.changes, {})
  end
end
return out
