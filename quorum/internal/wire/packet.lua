-- A packet of lock operations, carried out one after the other.
-- KEYS[1] the state hash: record and counters; then the locks of the operations, one for each but
--   for M and N, which have several
-- ARGV[1] the record under which this master votes, '' for any; ARGV[2] the prefix of names
-- then for each operation a letter and its arguments:
--   A secret ttl field owner        acquire: sets the lock if nothing stands at the key
--   W secret ttl field owner waits  as A, for somebody who waits: see intents
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
--   D secret, P secret              release; P also tells those who wait for the key
--   Q secret, Z secret              as P, for what is likely to be a reader, or a slot
--   K secret ms                     keep: as P, but what the lock held stays taken for ms
--   F secret ms                     fade: the lock lives at most ms more
--   I                               inspect
--   X                               free: deletes any lock, and tells as P does
-- ttl and ms are milliseconds, a fence has 16 digits, field names a counter, '' without fencing.
-- reply: {1 admitted or 0, seconds, microseconds, a result for each operation}. The results:
--   A, W, S, M  the fence, 0 without fencing. Refused: -2 - left of a key that stands there,
--      whatever its type, and is not touched: it lives left milliseconds more, for ever if left is
--      -1. With slots that are all taken, left is until the first is free
--   L  'slot fence', or refused as A
--   R, N, C, D, P, Q, Z, K, F, X  1 done, 0 something else stands there, or nothing. C and K say
--      1 + slot
--   T  1 set; 2 it stood there and lives at least that long now; 0 something else stands there.
--      Another slot that the secret has is left
--   E, H  what stands behind the secret, at most 80 bytes, with 'S' or 'L<slot> ' in front for a
--      reader or a slot; 0 something else stands there, or nothing
--   I  null: nothing; 'left value', left -1 for ever, value cut to 256 bytes; OTHER: no lock;
--      {'shared' or 'limit', left, how many hold it, value, left, ...}: at most 128 of them; the
--      value of a slot has '<slot> ' in front
-- An error is the result of one operation and leaves the others alone. NOTADMITTED: the record
-- differs, and the operation votes: all but D, P, Q, Z, K, F and X do.
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
-- All is one stretch without functions: to make one costs as much as an operation. Those that only
-- readers and slots need are made when they are needed. Behind TIME nothing may throw, or
-- operations that were carried out would get no answer.
local pcall, format, type, sub = redis.pcall, string.format, type, string.sub
local KEYS, ARGV, state, prefix = KEYS, ARGV, KEYS[1], ARGV[2]
local now = redis.call('TIME')
local width = {A = 5, W = 6, S = 6, L = 9, R = 4, T = 7, E = 3, H = 4, C = 2, D = 2, P = 2, Q = 2,
  Z = 2, K = 3, F = 3, I = 1, X = 1}
-- The record and the counters are read once, before the operations, and the counters are written
-- once, behind them.
local fields, counter, broken, at, last = {'record'}, {}, nil, 3, #ARGV
while at <= last do
  local op, from, to = ARGV[at], at + 3, at + 3
  if op == 'A' or op == 'W' or op == 'R' or op == 'S' or op == 'L' or op == 'T' or op == 'H' then
    at = at + width[op]
  elseif op == 'M' or op == 'N' then
    from = at + (op == 'M' and 6 or 4)
    to = from + tonumber(ARGV[at + 3]) - 1
    at = to + 1
  else
    at = at + width[op]
    to = 0
  end
  for f = from, to do
    local field = ARGV[f]
    if field ~= '' and not counter[field] then
      counter[field] = 0
      fields[#fields + 1] = field
    end
  end
end
-- %d is faster, but right only where C has a long of 64 bits. To ask pays off with a few fences.
local digits, digits16 = '%.0f', '%016.0f'
if #fields > 5 and format('%d', 9007199254740991) == '9007199254740991' then
  digits, digits16 = '%d', '%016d'
end
local have = pcall('HMGET', state, unpack(fields))
local admitted = ARGV[1] == '' or have[1] == ARGV[1]
for i = 2, #fields do
  local number = have[i] and tonumber(have[i]) or have[i] == false and 0 or -1
  if number >= 0 and number < 9007199254740991 and number % 1 == 0 then
    counter[fields[i]] = number
  else
    counter[fields[i]] = nil
    broken = have.err and have or {err = 'ERR a fencing counter is no number under 2^53 - 1'}
  end
end
local out = {admitted and 1 or 0, tonumber(now[1]), tonumber(now[2])}
local refusal = not admitted and {err = 'NOTADMITTED the record of this master has changed'}
local ms = out[2] * 1000 + (out[3] - out[3] % 1000) / 1000

local raised, counted = {}, {}    -- new texts of counters; the results that are void without them
local channels, messages = {}, {} -- of releases to tell
local changes = {}                -- keys whose holders have changed otherwise
local tools                       -- what only readers, slots and several keys need
local i, k = 0, 1                 -- the operation, its last key
at = 3
-- kinds.lua stands here.
while at <= last do
  local op, secret, result, wide = ARGV[at], ARGV[at + 1], nil, nil
  i, k = i + 1, k + 1
  local key = KEYS[k]
  if not admitted and op ~= 'D' and op ~= 'P' and op ~= 'Q' and op ~= 'Z' and op ~= 'K'
    and op ~= 'F' and op ~= 'X' then
    result = refusal
    if op == 'M' or op == 'N' then
      local n = tonumber(ARGV[at + 3])
      k, wide = k + n - 1, n + (op == 'M' and 6 or 4)
    end

  elseif op == 'A' or op == 'W' then
    local field, fence, text = ARGV[at + 3], 0, '0000000000000000'
    local had = counter[field]
    if had then
      fence = had + 1
      text = format(digits16, fence)
    end
    if not had and field ~= '' then
      result = broken
    else
      local set = pcall('SET', key, secret .. text .. ARGV[at + 4], 'NX', 'PX', ARGV[at + 2])
      if set and not set.err then
        result = fence
        changes[#changes + 1] = key
        if had then
          counter[field], raised[field] = fence, text
          counted[#counted + 1] = i + 3
        end
        if op == 'W' then
          pcall('DEL', prefix .. 'intent:' .. key)
        end
      else
        result = pcall('PTTL', key)
        if result == -2 then
          result = set
        elseif type(result) == 'number' then
          result = -2 - result
          if op == 'W' and pcall('GETRANGE', key, '0', '0').err then -- held by readers, or by slots
            tools = tools or kinds(prefix, ms, digits16, broken, counter, raised, counted, channels,
              messages, changes)
            result = tools:refuse(key, 'X', ARGV[at + 5])
          end
        end
      end
    end

  elseif op == 'I' then
    local left = pcall('PTTL', key)
    result = left
    if left == -2 then
      result = false
    elseif type(left) == 'number' then
      result = pcall('GETRANGE', key, '0', '255')
      if type(result) == 'string' then
        result = format('%.0f ', left) .. result
      elseif sub(result.err, 1, 9) == 'WRONGTYPE' then
        tools = tools or kinds(prefix, ms, digits16, broken, counter, raised, counted, channels,
          messages, changes)
        result = tools:inspect(key, left)
      end
    end

  elseif op == 'S' or op == 'Q' or op == 'L' or op == 'Z' or op == 'T' or op == 'M'
    or op == 'N' then
    tools = tools or kinds(prefix, ms, digits16, broken, counter, raised, counted, channels,
      messages, changes)
    local ended
    result, wide, ended = tools[op](tools, key, secret, i + 3, at, k)
    k = ended or k

  else
    local value = pcall('GETRANGE', key, '0', '39')
    if value ~= secret and type(value) == 'table' then
      result = value
      if sub(value.err, 1, 9) == 'WRONGTYPE' then
        tools = tools or kinds(prefix, ms, digits16, broken, counter, raised, counted, channels,
          messages, changes)
        result = tools:other(op, key, secret, i + 3, at)
      end
    elseif value ~= secret and op ~= 'X' then
      result = 0
    elseif op == 'P' or op == 'D' or op == 'X' then
      result = pcall('DEL', key)
      if result == 1 and op ~= 'D' then
        channels[#channels + 1] = prefix .. 'released:' .. key
        messages[#channels] = value
      end
    elseif op == 'C' then
      result = 1
    elseif op == 'R' then
      local field, text = ARGV[at + 3], ARGV[at + 2]
      local had = counter[field]
      if not had and field ~= '' then
        result = broken
      else
        result = pcall('SETRANGE', key, '40', text) -- keeps the expiry
        if type(result) == 'number' then
          result = 1
          if had then
            counted[#counted + 1] = i + 3
            if had < tonumber(text) then
              counter[field], raised[field] = tonumber(text), text
            end
          end
        end
      end
    elseif op == 'K' or op == 'H' then
      tools = tools or kinds(prefix, ms, digits16, broken, counter, raised, counted, channels,
        messages, changes)
      result = tools[op](tools, key, secret, i + 3, at)
    else -- E, F
      local left, bound = pcall('PTTL', key), tonumber(ARGV[at + 2])
      result = left
      if type(left) == 'number' then
        result = 1
        if op == 'E' and left < bound or op == 'F' and (left < 0 or left > bound) then
          result = pcall('PEXPIRE', key, ARGV[at + 2])
        end
        if op == 'E' and result == 1 then
          result = pcall('GETRANGE', key, '40', '119')
        end
      end
    end
  end
  out[i + 3] = result
  at = at + (wide or width[op])
end

if counted[1] then
  local pairs = {}
  for i = 2, #fields do
    local field = fields[i]
    local text = raised[field]
    if text then
      if counter[field] < 1e15 then -- no leading zeros, which HINCRBY would not take
        text = format(digits, counter[field])
      end
      pairs[#pairs + 1] = field
      pairs[#pairs + 1] = text
    end
  end
  local written = pairs[1] and pcall('HSET', state, unpack(pairs))
  if type(written) == 'table' then
    for i = 1, #counted do
      out[counted[i]] = written
    end
  end
end

-- Nothing is published when nobody waits. Who follows a key subscribes to changed as well, so that
-- a name for each grant is made only where somebody follows one. A user who may not ask or publish
-- still releases.
local told = #channels
if changes[1] then
  channels[told + 1] = prefix .. 'changed'
end
if channels[1] then
  local waits = pcall('PUBSUB', 'NUMSUB', unpack(channels))
  for i = 1, told do
    if (waits[2 * i] or 0) > 0 then
      pcall('PUBLISH', channels[i], messages[i] and sub(redis.sha1hex(messages[i]), 1, 16) or '')
    end
  end
  if (waits[2 * told + 2] or 0) > 0 then
    for i = 1, #changes do
      changes[i] = prefix .. 'changed:' .. changes[i]
    end
    waits = pcall('PUBSUB', 'NUMSUB', unpack(changes))
    for i = 1, #waits / 2 do
      if waits[2 * i] > 0 then
        pcall('PUBLISH', changes[i], '')
      end
    end
  end
end
return out
