-- A packet of lock operations. Most are releases and acquires of exclusive locks. They come first
-- and are carried out together, as each command costs as much as an operation. All others follow,
-- one after the other.
-- KEYS[1] the state hash: record and counters; then the locks of the operations, one for each but
--   for M and N, which have several
-- ARGV[1] the record under which this master votes, '' for any
-- ARGV[2] four characters, each so far behind '0' as there are operations P, D, A and W
-- then a secret for each P and D: release. They delete the lock; P also tells those who wait for
--   the key. No two are of the same token
-- then the columns of A and W: first all secrets, each with the owner behind it, then the fields,
--   then the ttls, then the waits of W
--     A  acquire: sets the lock if nothing stands at the key
--     W  as A, for somebody who waits: see intents
-- then for each other operation a letter and its arguments:
--   S secret ttl field owner waits  acquire shared: joins the readers, or is the first
--   L secret ttl field owner waits limit slot slot  acquire a slot under limit: one of the two if
--                                   one is free, else the first that is
--   M secret ttl n owner waits field ...  acquire n keys, all or none
--   R secret fence field            raise: the lock gets this fence, the counter is at least that
--   N secret fence n field ...      raise n keys, all or none
--   T secret ttl field fence owner mode  top up: as A, S (mode S) or L (mode is the slot) with a
--                                   fence, or as E if the lock stands there
--   E secret ttl                    extend: raises the lock's expiry, never lowers it
--   H secret ttl field              share: makes an exclusive lock a shared one, and extends it
--   C secret                        check
--   P secret, D secret              release, behind others of the same token
--   Q secret, Z secret              as P, for what is likely to be a reader, or a slot
--   K secret ms                     keep: as P, but what the lock held stays taken for ms
--   F secret ms                     fade: the lock lives at most ms more
--   I                               inspect
--   X                               free: deletes any lock, and tells as P does
-- ttl and ms are milliseconds, a fence has 16 digits, field names a counter, '' without fencing.
-- reply: {0 not admitted, or 1 and the number of packets that a durable master has counted; seconds,
--   microseconds, a result for each operation}. The results:
--   A, W, S, M  the fence, 0 without fencing. Refused: -2 - left of a key that stands there,
--      whatever its type, and is not touched: it lives left milliseconds more, for ever if left is
--      -1. With slots that are all taken, left is until the first is free
--   L  'slot fence', or refused as A
--   R, N, C, P, D, Q, Z, K, F, X  1 done, 0 something else stands there, or nothing. C and K say
--      1 + slot
--   T  1 set; 2 it stood there and lives at least that long now; 0 something else stands there.
--      Another slot that the secret has is left
--   E, H  what stands behind the secret, at most 80 bytes, with 'S' or 'L<slot> ' in front for a
--      reader or a slot; 0 something else stands there, or nothing
--   I  null: nothing; 'left value', left -1 for ever, value cut to 256 bytes; OTHER: no lock;
--      {'shared' or 'limit', left, how many hold it, value, left, ...}: at most 128 of them; the
--      value of a slot has '<slot> ' in front
-- An error is the result of one operation and leaves the others alone. NOTADMITTED: the record
-- differs, and the operation votes: all but P, D, Q, Z, K, F and X do. Counters are whole numbers
-- up to (TIME in ms + 86400000) * 2048, under 2^53; a larger one is a mistake. An operation that
-- counts with such a counter, or would raise a counter over this limit, is answered with an error.
--
-- What stands at a lock's key (<value> is secret, fence, owner; ends are by this clock, in ms):
--   exclusive  a string, <value>
--   shared     a sorted set: 'lockproxy' with score 0; of each reader <secret> with its end as the
--              score, and <value> with minus that. So it is found by its secret at once
--   limit      a hash: lockproxy = limit, last = the greatest end, <slot> = '<end> <value>',
--              s<secret> = <slot>
-- A key expires with the last of those who hold it. One who is let go early takes the expiry back.
-- A secret that begins with 'kept' is of no token: what it holds is closed for a while (K).
-- Intents: who waits for a key that is held in another mode leaves its letter there for so many ms
-- as waits says, '' for not waiting, and nobody joins those who hold it until then. It is a hint.
--
-- All is one stretch without functions: to make one costs as much as an operation. What the other
-- operations need is made when one of them comes. Behind TIME nothing may throw, or operations that
-- were carried out would get no answer.
local pcall, format, type, tonumber, sub = redis.pcall, string.format, type, tonumber, string.sub
local KEYS, ARGV, state = KEYS, ARGV, KEYS[1]
local aloud, quiet, asking, waiting = string.byte(ARGV[2], 1, 4)
aloud, asking = aloud - 48, asking - 48
local releases, acquires = aloud + quiet - 48, asking + waiting - 48
local fields = 2 + releases + acquires -- the first field stands behind this place
local ttls = fields + acquires
local waits = ttls + acquires - asking -- W are the last acquires
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
-- Nothing is published where nobody listens. Who listens for any key subscribes to one of these as
-- well, so that the names of keys are made only then.
local hears = pcall('PUBSUB', 'NUMSUB', 'lockproxy:released:', 'lockproxy:changed')
local waited, followed, tell = (hears[2] or 0) > 0, (hears[4] or 0) > 0, nil
if waited or followed then
  tell = {freed = {}, by = {}, changes = {}} -- keys: released, with which secret; changed otherwise
end
-- %d is faster, but right only where C has a long of 64 bits. To ask pays off with a few fences.
local digits = '%.0f'
if acquires > 4 and format('%d', 9007199254740991) == '9007199254740991' then
  digits = '%d'
end
local tools -- what the other operations need
-- others.lua stands here.

if releases > 0 then
  local gone = {}
  for i = 1, releases do
    local key, secret, result = KEYS[i + 1], ARGV[i + 2], 0
    local value = pcall('GETRANGE', key, '0', '39')
    if value == secret then
      gone[#gone + 1] = key
      result = gone
    elseif type(value) == 'table' then -- an error, or readers or slots
      tools = tools or others(out, tell)
      result = tools:release(i <= aloud and 'P' or 'D', key, secret)
    end
    out[i + 3] = result
  end
  local done = gone[1] and pcall('DEL', unpack(gone))
  for i = 1, releases do
    if out[i + 3] == gone then
      out[i + 3] = type(done) == 'table' and done or 1
      if waited and i <= aloud and out[i + 3] == 1 then
        tell.freed[#tell.freed + 1] = KEYS[i + 1]
        tell.by[#tell.freed] = ARGV[i + 2]
      end
    end
  end
end

if acquires > 0 then
  local limit = (out[2] * 1000 + (out[3] - out[3] % 1000) / 1000 + 86400000) * 2048
  limit = limit < 9007199254740991 and limit or 9007199254740991
  local seen, zeros = {}, '0000000000000000' -- what counters have been raised to
  local numbers, n = {unpack(ARGV, fields - acquires + 1, ttls)}, 0 -- as large as it can become
  for i = 1, acquires do
    local key, field, fence, text, result = KEYS[releases + i + 1], ARGV[fields + i], 0, '', refusal
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
          tell.changes[#tell.changes + 1] = key
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
          if i > asking and pcall('GETRANGE', key, '0', '0').err then -- readers hold it, or slots
            tools = tools or others(out, tell)
            result = tools:refuse(key, 'X', ARGV[waits + i])
          end
        end
      end
    end
    out[releases + i + 3] = result
  end
  local written = n > 0 and pcall('HSET', state, unpack(numbers, 1, n))
  for i = releases + 4, type(written) == 'table' and releases + acquires + 3 or 0 do
    if type(out[i]) == 'number' and out[i] >= 0 then
      out[i] = written
    end
  end
end

if ARGV[waits + acquires + 1] then
  tools = tools or others(out, tell)
  tools:carryOut(refusal, waits + acquires + 1, releases + acquires + 1)
end

-- A user who may not ask or publish still releases.
if tell then
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
  publish('lockproxy:released:', tell.freed, tell.by)
  if followed then
    publish('lockproxy:changed:', tell.changes, {})
  end
end
return out
