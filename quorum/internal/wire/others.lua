-- All operations but most releases and the acquires of exclusive locks, and what those need where
-- they find readers or slots. Made when a packet comes upon the first of them. Functions find in a
-- table what they share: each variable that one refers to costs every packet in which it is made.
local function others(out, tell)
  local pcall, format, type, sub = redis.pcall, string.format, type, string.sub
  local KEYS, ARGV = KEYS, ARGV
  local tools = {
    ms = out[2] * 1000 + (out[3] - out[3] % 1000) / 1000, ends = {},
    counter = {}, broken = {},     -- what the counters have; the errors of those that cannot count
    raised = {}, counted = {},     -- new texts of counters; the results that are void without them
    freed = tell and tell.freed or {}, by = tell and tell.by or {},
    changes = tell and tell.changes or {},
  }

  tools.limit = math.min((tools.ms + 86400000) * 2048, 9007199254740991) -- of counters

  function tools:whole(number) return format('%.0f', number) end

  -- ahead returns the error if no counter may be raised to number, otherwise false.
  function tools:ahead(number)
    return number > self.limit
      and {err = 'ERR a fencing counter is more than a day ahead of the clock'}
  end

  -- endOf is when what is set now for ttl ends, as a number and as text.
  function tools:endOf(ttl)
    local over = self.ms + ttl
    self.ends[ttl] = self.ends[ttl] or self:whole(over)
    return over, self.ends[ttl]
  end

  -- wrongType reports whether a reply says that a key is of another type.
  function tools:wrongType(reply)
    return type(reply) == 'table' and reply.err and sub(reply.err, 1, 9) == 'WRONGTYPE'
  end

  -- tell publishes a release behind the operations. Without of the message is empty.
  function tools:tell(key, of)
    self.freed[#self.freed + 1] = key
    self.by[#self.freed] = of
  end

  -- raise makes a counter at least number, without which the result at place is void. text is the
  -- number where that is known.
  function tools:raise(field, number, place, text)
    if field ~= '' then
      self.counted[#self.counted + 1] = place
      if self.counter[field] < number then
        self.counter[field], self.raised[field] = number, text or format('%016.0f', number)
      end
    end
  end

  -- refuse is the answer to an acquire of mode that found another key. Who waits leaves an intent,
  -- if those who hold the key would be joined by others.
  function tools:refuse(key, mode, waits)
    local left = pcall('PTTL', key)
    if type(left) ~= 'number' or left == -2 then
      return type(left) == 'table' and left or false
    end
    if waits ~= '' then
      local kind = pcall('TYPE', key).ok
      kind = kind == 'zset' and 'S' or kind == 'hash' and 'L'
      if kind and kind ~= mode then
        self:intend(key, mode, kind, waits)
      end
    end
    return -2 - left
  end

  -- intend leaves an intent for so long. One that stands longer is left alone, unless it is of
  -- kind, which is what stands at the key: that keeps nobody out.
  function tools:intend(key, mode, kind, waits)
    local intent = 'lockproxy:intent:' .. key
    local left = pcall('PTTL', intent)
    if type(left) == 'number' and (left <= tonumber(waits) or pcall('GET', intent) == kind) then
      pcall('SET', intent, mode, 'PX', waits)
    end
  end

  -- closed is the refusal where somebody of another mode waits for the key; nil where nobody does.
  function tools:closed(key, mode)
    local intent = 'lockproxy:intent:' .. key
    local waits = pcall('GET', intent)
    if type(waits) == 'string' and waits ~= mode then
      local left = pcall('PTTL', intent)
      if type(left) == 'number' and left >= 0 then
        return -2 - left
      end
    end
  end

  -- carryOut carries out the operations from ARGV[at] on, of which the first stands behind KEYS[k].
  -- Their counters are read once before them, and written once behind them.
  function tools:carryOut(refusal, at, k)
    local width = {S = 6, L = 9, R = 4, T = 7, E = 3, H = 4, C = 2, D = 2, P = 2, Q = 2, Z = 2,
      K = 3, F = 3, I = 1, X = 1}
    local free = {D = true, P = true, Q = true, Z = true, K = true, F = true, X = true}
    local counter, names, first, last, place = self.counter, {}, at, #ARGV, k + 2
    while at <= last do
      local op, from, to = ARGV[at], at + 3, at + 3
      if op == 'M' or op == 'N' then
        from = at + (op == 'M' and 6 or 4)
        to = from + tonumber(ARGV[at + 3]) - 1
        at = to + 1
      else
        at = at + width[op]
        if op ~= 'R' and op ~= 'S' and op ~= 'L' and op ~= 'T' and op ~= 'H' then
          to = 0
        end
      end
      for f = from, to do
        local field = ARGV[f]
        if field ~= '' and not counter[field] then
          counter[field] = 0
          names[#names + 1] = field
        end
      end
    end
    local have = names[1] and pcall('HMGET', KEYS[1], unpack(names))
    for j = 1, #names do
      local number = have[j] and tonumber(have[j]) or have[j] == false and 0 or -1
      if number >= 0 and number < self.limit and number % 1 == 0 then
        counter[names[j]] = number
      else
        counter[names[j]] = nil
        self.broken[names[j]] = have.err and have or self:ahead(number + 1)
          or {err = 'ERR a fencing counter is no number under 2^53 - 1'}
      end
    end
    at = first
    while at <= last do
      local op, secret, result, wide = ARGV[at], ARGV[at + 1], nil, nil
      place, k = place + 1, k + 1
      local key = KEYS[k]
      local fence = (op == 'R' or op == 'N') and ARGV[at + 2] or op == 'T' and ARGV[at + 4]
      local void = not free[op] and (refusal or fence and self:ahead(tonumber(fence)))
      if void then
        result = void
        if op == 'M' or op == 'N' then
          local n = tonumber(ARGV[at + 3])
          k, wide = k + n - 1, n + (op == 'M' and 6 or 4)
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
            result = self:inspect(key, left)
          end
        end

      elseif op == 'S' or op == 'Q' or op == 'L' or op == 'Z' or op == 'T' or op == 'M'
        or op == 'N' then
        local ended
        result, wide, ended = self[op](self, key, secret, place, at, k)
        k = ended or k

      elseif op == 'P' or op == 'D' then
        result = self:release(op, key, secret)

      else
        local value = pcall('GETRANGE', key, '0', '39')
        if value ~= secret and type(value) == 'table' then
          result = value
          if sub(value.err, 1, 9) == 'WRONGTYPE' then
            result = self:other(op, key, secret, place, at)
          end
        elseif value ~= secret and op ~= 'X' then
          result = 0
        elseif op == 'X' then
          result = pcall('DEL', key)
          if result == 1 then
            self:tell(key, value)
          end
        elseif op == 'C' then
          result = 1
        elseif op == 'R' then
          local field, text = ARGV[at + 3], ARGV[at + 2]
          local had = counter[field]
          if not had and field ~= '' then
            result = self.broken[field]
          else
            result = pcall('SETRANGE', key, '40', text) -- keeps the expiry
            if type(result) == 'number' then
              result = 1
              self:raise(field, tonumber(text), place)
            end
          end
        elseif op == 'K' or op == 'H' then
          result = self[op](self, key, secret, place, at)
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
      out[place] = result
      at = at + (wide or width[op])
    end

    if self.counted[1] then
      local numbers = {}
      for field, text in pairs(self.raised) do
        if counter[field] < 1e15 then -- no leading zeros, which HINCRBY would not take
          text = self:whole(counter[field])
        end
        numbers[#numbers + 1] = field
        numbers[#numbers + 1] = text
      end
      local written = numbers[1] and pcall('HSET', KEYS[1], unpack(numbers))
      for j = 1, type(written) == 'table' and #self.counted or 0 do
        out[self.counted[j]] = written
      end
    end
  end

  local function makeReaders()
    -- latest is when the last reader ends, and with it the key; 0 without one; or an error. What
    -- PTTL and TIME say together is not exact: time goes by between them, or stands still for one.
    function tools:latest(key)
      local last = pcall('ZREVRANGE', key, '0', '0', 'WITHSCORES')
      return last.err and last or tonumber(last[2] or 0)
    end

    -- settleReaders takes the expiry of a key to where its last reader ends, which was over; a key
    -- without readers is deleted. It returns true if it was, or the error that kept the expiry.
    function tools:settleReaders(key, over)
      local last = self:latest(key)
      if type(last) == 'table' then
        return last
      elseif last < self.ms then
        pcall('DEL', key)
        return true
      elseif last ~= over then
        local done = pcall('PEXPIREAT', key, self:whole(last))
        return type(done) == 'table' and done
      end
    end

    -- forget removes members that are over, some at a time.
    function tools:forget(key, low, high)
      local over = pcall('ZRANGEBYSCORE', key, low, high, 'LIMIT', '0', '64')
      if over[1] then
        pcall('ZREM', key, unpack(over))
      end
    end

    -- join makes a reader. The first one counts, and those who join have the number that stands. A
    -- top-up brings its own; it counts, too, where it is the first, as those who join it later must
    -- have a greater number than whoever had the key alone before.
    function tools:join(key, secret, place, ttl, field, owner, waits, topUp)
      local had, greatest = self.counter[field], 0
      if not had and field ~= '' then
        return self.broken[field]
      end
      local stands = pcall('ZCARD', key)
      local fresh = stands == 0
      local mark = fresh or pcall('ZSCORE', key, 'lockproxy')
      if type(stands) == 'table' and not self:wrongType(stands) then
        return stands
      elseif mark == false or self:wrongType(mark) then
        return self:refuse(key, 'S', waits)
      elseif type(mark) == 'table' then
        return mark
      elseif not fresh then
        if pcall('ZSCORE', key, secret) then
          return self:refuse(key, 'S', '') -- somebody has set it again before this came
        end
        self:forget(key, '(0', '(' .. self:whole(self.ms))
        self:forget(key, '(-' .. self:whole(self.ms), '(0')
        greatest = self:latest(key)
        if type(greatest) == 'table' then
          return greatest
        end
      end
      local shut = not topUp and self:closed(key, 'S')
      if shut then
        return shut
      end
      local number = tonumber(topUp) or had and (greatest > 0 and had or had + 1) or 0
      local text = topUp or format('%016.0f', number)
      local value, over, last = secret .. text .. owner, self:endOf(ttl)
      local done = pcall('ZADD', key, '0', 'lockproxy', last, secret, '-' .. last, value)
      if type(done) == 'number' and over > greatest then
        done = pcall('PEXPIREAT', key, last)
        if type(done) == 'table' then -- no key stands without an expiry
          pcall('ZREM', key, secret, value, fresh and 'lockproxy' or value)
        end
      end
      if type(done) == 'table' then
        return done
      end
      if greatest <= 0 and had and had >= number then
        self:raise(field, had + 1, place)
      elseif greatest <= 0 or topUp then
        self:raise(field, number, place, text)
      end
      self.changes[#self.changes + 1] = key
      return number
    end

    function tools:S(key, secret, place, at)
      local waits = ARGV[at + 5]
      local result = self:join(key, secret, place, ARGV[at + 2], ARGV[at + 3], ARGV[at + 4], waits)
      if waits ~= '' and type(result) == 'number' and result >= 0 then
        pcall('DEL', 'lockproxy:intent:' .. key)
      end
      return result
    end

    -- reader carries out an operation on a reader that ends at over.
    function tools:reader(op, key, secret, place, at, over)
      if (op == 'P' or op == 'D') and over >= self.ms and pcall('ZCARD', key) == 3 then -- alone
        local done = pcall('DEL', key)
        if op == 'P' and done == 1 then
          self:tell(key, secret)
        end
        return done
      end
      local value = secret .. '0000000000000000'
      local minus = '-' .. self:whole(over)
      for _, found in ipairs(pcall('ZRANGEBYSCORE', key, minus, minus)) do
        if sub(found, 1, 40) == secret then
          value = found
        end
      end
      if over < self.ms then
        pcall('ZREM', key, secret, value)
        return 0
      elseif op == 'C' then
        return 1
      elseif op == 'R' then
        local text, field = ARGV[at + 2], ARGV[at + 3]
        if not self.counter[field] and field ~= '' then
          return self.broken[field]
        end
        local new = secret .. text .. sub(value, 57)
        if new ~= value then
          local done = pcall('ZADD', key, minus, new)
          if type(done) == 'table' then
            return done
          end
          pcall('ZREM', key, value)
        end
        self:raise(field, tonumber(text), place)
        return 1
      elseif op == 'D' or op == 'P' then
        local done = pcall('ZREM', key, secret, value)
        if type(done) == 'table' then
          return done
        end
        local empty = self:settleReaders(key, over)
        if op == 'P' then
          if empty == true then
            self:tell(key, secret)
          else
            self.changes[#self.changes + 1] = key
          end
        end
        return 1
      end
      local bound, who = self.ms + tonumber(ARGV[at + 2]), secret
      if op == 'K' then
        who = 'kept' .. sub(secret, 5)
      end
      if op == 'K' or op == 'F' and bound < over or (op == 'E' or op == 'H') and bound > over then
        local text = self:whole(bound)
        local done = pcall('ZADD', key, text, who, '-' .. text, who .. sub(value, 41))
        if type(done) == 'table' then
          return done
        end
        if op == 'K' then
          pcall('ZREM', key, secret, value)
        end
        local kept = self:settleReaders(key, over)
        if type(kept) == 'table' and bound > over then -- the key would run out before its holder
          pcall('ZADD', key, self:whole(over), secret, minus, value)
          if op == 'K' then
            pcall('ZREM', key, who, who .. sub(value, 41))
          end
          return kept
        end
        if op == 'K' then
          self:tell(key, secret)
        end
      end
      return (op == 'E' or op == 'H') and 'S' .. sub(value, 41, 120) or 1
    end

    -- Q releases what is likely to be a reader: what it is is not asked before.
    function tools:Q(key, secret)
      local result = self:other('P', key, secret)
      return result ~= 0 and result or self:release('P', key, secret)
    end
  end

  local function makeSlots()
    -- slotOf reads what stands at a slot: its end and the value. What is no slot is long over.
    function tools:slotOf(text)
      local cut = string.find(text, ' ', 1, true) or 1
      return tonumber(sub(text, 1, cut - 1)) or 0, sub(text, cut + 1)
    end

    -- settleSlots takes the expiry of a key to where its last slot ends; a key without slots is
    -- deleted. Where another slot ends later than over, the key is left alone. It returns the error
    -- that kept the expiry.
    function tools:settleSlots(key, over)
      if over and over < (tonumber(pcall('HGET', key, 'last')) or 0) then
        return
      end
      local all, greatest = pcall('HGETALL', key), 0
      if all.err then
        return all
      end
      for f = 1, #all, 2 do
        if tonumber(all[f]) then
          greatest = math.max(greatest, (self:slotOf(all[f + 1])))
        end
      end
      if greatest < self.ms then
        pcall('DEL', key)
        return
      end
      local last = pcall('HGET', key, 'last')
      local done = pcall('HSET', key, 'last', self:whole(greatest))
      if type(done) == 'number' then
        done = pcall('PEXPIREAT', key, self:whole(greatest))
        if type(done) == 'table' and type(last) == 'string' and tonumber(last) < greatest then
          pcall('HSET', key, 'last', last) -- never later than the key runs out
        end
      end
      return type(done) == 'table' and done
    end

    -- occupy takes a slot. old is the value of one that has run out there, or nil.
    function tools:occupy(key, secret, place, slot, old, fresh, ttl, field, number, owner)
      local over, till = self:endOf(ttl)
      local text = format('%016.0f', number)
      local last = not fresh and tonumber(pcall('HGET', key, 'last')) or 0
      local value = till .. ' ' .. secret .. text .. owner
      local done = pcall('HSET', key, 'lockproxy', 'limit', slot, value, 's' .. secret, slot,
        'last', over > last and till or self:whole(last))
      if type(done) ~= 'table' then
        if old and sub(old, 1, 40) ~= secret then
          pcall('HDEL', key, 's' .. sub(old, 1, 40))
        end
        done = over > last and pcall('PEXPIREAT', key, till)
        if type(done) == 'table' and fresh then -- no key stands without an expiry
          pcall('HDEL', key, slot, 's' .. secret, 'lockproxy', 'last')
        elseif type(done) == 'table' then
          pcall('HDEL', key, slot, 's' .. secret)
          pcall('HSET', key, 'last', self:whole(last))
        end
      end
      if type(done) == 'table' then
        return done
      end
      self:raise(field, number, place, text)
      self.changes[#self.changes + 1] = key
      return slot .. ' ' .. text
    end

    -- slots says whether slots stand at a key: true, or it is fresh and nothing does; else the
    -- refusal, or the error.
    function tools:slots(key, waits)
      local count = pcall('HLEN', key)
      if count == 0 then
        return true, true
      elseif type(count) == 'table' and not self:wrongType(count) then
        return count
      end
      local mark = pcall('HGET', key, 'lockproxy')
      if mark == 'limit' then
        return true, false
      elseif type(mark) == 'table' and not self:wrongType(mark) then
        return mark
      end
      return self:refuse(key, 'L', waits)
    end

    function tools:L(key, secret, place, at)
      local ttl, field, owner, waits = ARGV[at + 2], ARGV[at + 3], ARGV[at + 4], ARGV[at + 5]
      local had = self.counter[field]
      if not had and field ~= '' then
        return self.broken[field]
      end
      local may, fresh = self:slots(key, waits)
      local shut = may == true and self:closed(key, 'L')
      if may == true and not fresh and pcall('HGET', key, 's' .. secret) then
        return self:refuse(key, 'L', '') -- somebody has set it again before this came
      end
      if may ~= true or shut then
        return shut or may
      end
      local slot, old
      for f = 7, 8 do
        local text = not slot and not fresh and pcall('HGET', key, ARGV[at + f])
        local over, value
        if text then
          over, value = self:slotOf(text)
        end
        if not slot and (not text or over < self.ms) then
          slot, old = ARGV[at + f], value
        end
      end
      if not slot then
        local taken, soonest, all = {}, nil, pcall('HGETALL', key)
        if all.err then
          return all
        end
        for f = 1, #all, 2 do
          taken[all[f]] = all[f + 1]
        end
        for number = 0, tonumber(ARGV[at + 6]) - 1 do
          local text = taken[self:whole(number)]
          local over, value
          if text then
            over, value = self:slotOf(text)
            soonest = math.min(soonest or over, over)
          end
          if not slot and (not text or over < self.ms) then
            slot, old = self:whole(number), value
          end
        end
        if not slot then
          return -2 - (soonest - self.ms)
        end
      end
      local number = had and had + 1 or 0
      local result = self:occupy(key, secret, place, slot, old, fresh, ttl, field, number, owner)
      if waits ~= '' and type(result) == 'string' then
        pcall('DEL', 'lockproxy:intent:' .. key)
      end
      return result
    end

    -- holder carries out an operation on a slot.
    function tools:holder(op, key, secret, place, at, slot)
      local text, over, value = pcall('HGET', key, slot), 0, ''
      if type(text) == 'string' then
        over, value = self:slotOf(text)
      end
      if over < self.ms or sub(value, 1, 40) ~= secret then
        pcall('HDEL', key, 's' .. secret)
        return 0
      elseif op == 'C' then
        return 1 + (tonumber(slot) or 0)
      elseif op == 'H' then
        return {err = 'WRONGMODE a slot cannot be shared'}
      elseif op == 'R' then
        local fence, field = ARGV[at + 2], ARGV[at + 3]
        if not self.counter[field] and field ~= '' then
          return self.broken[field]
        end
        local new = self:whole(over) .. ' ' .. secret .. fence .. sub(value, 57)
        local done = pcall('HSET', key, slot, new)
        if type(done) == 'table' then
          return done
        end
        self:raise(field, tonumber(fence), place)
        return 1
      elseif op == 'D' or op == 'P' then
        local alone = pcall('HLEN', key) == 4 -- with what is noted beside
        local done = alone and pcall('DEL', key) or pcall('HDEL', key, slot, 's' .. secret)
        if type(done) == 'table' then
          return done
        end
        if not alone then
          self:settleSlots(key, over)
        end
        if op == 'P' then
          self:tell(key, secret)
          self.changes[#self.changes + 1] = key
        end
        return 1
      end
      local bound, who = self.ms + tonumber(ARGV[at + 2]), secret
      if op == 'K' then
        who = 'kept' .. sub(secret, 5)
      end
      if op == 'K' or op == 'F' and bound < over or op == 'E' and bound > over then
        local done = pcall('HSET', key, slot, self:whole(bound) .. ' ' .. who .. sub(value, 41))
        if type(done) == 'table' then
          return done
        end
        local kept = self:settleSlots(key)
        if kept and bound > over then -- the key would run out before its holder
          pcall('HSET', key, slot, text)
          return kept
        end
        if op == 'K' then
          pcall('HDEL', key, 's' .. secret)
          self:tell(key, secret)
        end
      end
      if op == 'E' then
        return 'L' .. slot .. ' ' .. sub(value, 41, 120)
      end
      return op == 'K' and 1 + (tonumber(slot) or 0) or 1
    end

    -- Z releases what is likely to be a slot.
    function tools:Z(key, secret)
      local slot = pcall('HGET', key, 's' .. secret)
      if type(slot) == 'string' then
        return self:holder('P', key, secret, nil, nil, slot)
      end
      return self:Q(key, secret)
    end
  end

  local function makeSeveral()
    -- several reads how many keys M or N has, and whether their counters are numbers.
    function tools:several(at, head)
      local n = tonumber(ARGV[at + 3])
      for f = head, head + n - 1 do
        local field = ARGV[at + f]
        if not self.counter[field] and field ~= '' then
          return n, self.broken[field]
        end
      end
      return n
    end

    function tools:M(_, secret, place, at, first)
      local n, result = self:several(at, 6)
      local k = first + n - 1
      local ttl, owner, waits, wide = ARGV[at + 2], ARGV[at + 4], ARGV[at + 5], n + 6
      local fence, failed = 0, nil
      for f = at + 6, at + 5 + n do
        fence = math.max(fence, (self.counter[ARGV[f]] or -1) + 1)
      end
      local text = format('%016.0f', fence)
      local value = secret .. text .. owner
      for j = first, result and first - 1 or k do
        local set = pcall('SET', KEYS[j], value, 'NX', 'PX', ttl)
        if not set or set.err then
          failed, result = true, set
          for undo = first, j - 1 do
            pcall('DEL', KEYS[undo])
          end
          break
        end
      end
      local longest -- that a key in the way lives, -1 for ever
      for j = first, failed and k or first - 1 do
        local left = pcall('PTTL', KEYS[j])
        if type(left) == 'number' and left ~= -2 then
          self:refuse(KEYS[j], 'X', waits)
          longest = (left == -1 or longest == -1) and -1 or math.max(longest or 0, left)
        end
      end
      if failed or result then
        return longest and -2 - longest or result, wide, k
      end
      for j = first, k do
        self:raise(ARGV[at + 6 + j - first], fence, place, text)
        self.changes[#self.changes + 1] = KEYS[j]
        if waits ~= '' then
          pcall('DEL', 'lockproxy:intent:' .. KEYS[j])
        end
      end
      return fence, wide, k
    end

    function tools:N(_, secret, place, at, first)
      local n, result = self:several(at, 4)
      local k, wide = first + n - 1, n + 4
      for j = first, k do
        local value = result or pcall('GETRANGE', KEYS[j], '0', '39')
        if value ~= secret and not result then
          result = type(value) == 'table' and not self:wrongType(value) and value or 0
        end
      end
      for j = first, k do
        local done = not result and pcall('SETRANGE', KEYS[j], '40', ARGV[at + 2])
        if type(done) == 'table' then
          result = done
        elseif done then
          self:raise(ARGV[at + 4 + j - first], tonumber(ARGV[at + 2]), place)
        end
      end
      return result or 1, wide, k
    end
  end

  -- makeRest makes what may find anything at a key.
  local function makeRest()
    -- other carries out an operation on a key that is no string.
    function tools:other(op, key, secret, place, at)
      if op == 'X' then
        local readers = type(pcall('ZSCORE', key, 'lockproxy')) == 'string'
        if not readers and pcall('HGET', key, 'lockproxy') ~= 'limit' then
          return 0
        end
        local done = pcall('DEL', key)
        if done == 1 then
          self:tell(key)
        end
        return done
      end
      local stands = pcall('ZSCORE', key, secret)
      if type(stands) == 'string' then
        return self:reader(op, key, secret, place, at, tonumber(stands))
      elseif self:wrongType(stands) then
        stands = pcall('HGET', key, 's' .. secret)
        if type(stands) == 'string' then
          return self:holder(op, key, secret, place, at, stands)
        end
      end
      return type(stands) == 'table' and not self:wrongType(stands) and stands or 0
    end

    -- release deletes whatever lock the secret holds.
    function tools:release(op, key, secret)
      local value = pcall('GETRANGE', key, '0', '39')
      if value == secret then
        local done = pcall('DEL', key)
        if done == 1 and op == 'P' then
          self:tell(key, secret)
        end
        return done
      elseif self:wrongType(value) then
        return self:other(op, key, secret)
      end
      return type(value) == 'table' and value or 0
    end

    -- T tops up: what stands there with the secret lives at least as long. Another slot than the
    -- one that it should have is left.
    function tools:T(key, secret, place, at)
      local ttl, field, text = ARGV[at + 2], ARGV[at + 3], ARGV[at + 4]
      local owner, mode = ARGV[at + 5], ARGV[at + 6]
      if not self.counter[field] and field ~= '' then
        return self.broken[field]
      end
      local stands, result = pcall('GETRANGE', key, '0', '39'), nil
      if stands == secret and mode == 'S' then
        result = self:H(key, secret, place, at) -- it missed that the lock is shared
        return type(result) == 'table' and result or 2
      elseif stands == secret then
        result = pcall('PTTL', key)
        if type(result) == 'number' and result < tonumber(ttl) then
          result = pcall('PEXPIRE', key, ttl)
        end
        return type(result) == 'table' and result or 2
      elseif self:wrongType(stands) then
        local own = mode ~= '' and mode ~= 'S' and pcall('HGET', key, 's' .. secret)
        if type(own) == 'string' and own ~= mode then
          pcall('HDEL', key, own, 's' .. secret)
          self:settleSlots(key)
        end
        result = self:other('E', key, secret, place, at)
        if result ~= 0 then
          return type(result) == 'table' and result or 2
        end
      elseif type(stands) == 'table' then
        return stands
      end
      if mode == '' then
        result = pcall('SET', key, secret .. text .. owner, 'NX', 'PX', ttl)
        if not result or result.err then
          return result and not self:wrongType(stands) and stands == '' and result or 0
        end
        self:raise(field, tonumber(text), place)
        self.changes[#self.changes + 1] = key
        return 1
      elseif mode == 'S' then
        result = self:join(key, secret, place, ttl, field, owner, '', text)
      else
        local may, fresh = self:slots(key, '')
        local taken = may == true and not fresh and pcall('HGET', key, mode)
        local over, old
        if taken then
          over, old = self:slotOf(taken)
        end
        if may ~= true or taken and over >= self.ms then
          return type(may) == 'table' and may or 0
        end
        result = self:occupy(key, secret, place, mode, old, fresh, ttl, field, tonumber(text),
          owner)
      end
      if type(result) == 'number' then
        return result >= 0 and 1 or 0
      end
      return type(result) == 'string' and 1 or result or 0
    end

    -- K keeps the key of an exclusive lock closed.
    function tools:K(key, secret, _, at)
      local rest = pcall('GETRANGE', key, '40', '-1')
      local done = pcall('SET', key, 'kept' .. sub(secret, 5) .. rest, 'PX', ARGV[at + 2])
      if done.err then
        return done
      end
      self:tell(key, secret)
      return 1
    end

    -- H makes the holder of an exclusive lock its first reader. Those who join have a greater
    -- fence.
    function tools:H(key, secret, place, at)
      local field, left = ARGV[at + 3], pcall('PTTL', key)
      if not self.counter[field] and field ~= '' then
        return self.broken[field]
      elseif type(left) == 'table' then
        return left
      end
      local rest = pcall('GETRANGE', key, '40', '119')
      local number = (tonumber(sub(rest, 1, 16)) or 0) + 1
      local ahead = self:ahead(number)
      if ahead then
        return ahead
      end
      local later = pcall('TIME') -- than left was told
      later = later[1] * 1000 + (later[2] - later[2] % 1000) / 1000
      local over = self:whole(math.max(later + left, self.ms + tonumber(ARGV[at + 2])))
      local done = pcall('DEL', key)
      if type(done) == 'table' then
        return done
      end
      done = pcall('ZADD', key, '0', 'lockproxy', over, secret, '-' .. over, secret .. rest)
      if type(done) == 'number' then
        done = pcall('PEXPIREAT', key, over)
      end
      if type(done) == 'table' then -- this user may not
        pcall('SET', key, secret .. rest, 'PX', self:whole(math.max(left, 1)))
        return done
      end
      self:raise(field, number, place)
      self:tell(key, secret)
      return 'S' .. rest
    end

    function tools:inspect(key, left)
      local found
      if type(pcall('ZSCORE', key, 'lockproxy')) == 'string' then
        found = {'shared', left, pcall('ZCOUNT', key, self:whole(self.ms), '+inf')}
        local bound = '-' .. self:whole(self.ms)
        local all = pcall('ZRANGEBYSCORE', key, '-inf', bound, 'WITHSCORES', 'LIMIT', '0', '128')
        for f = 1, #all, 2 do
          found[#found + 1] = sub(all[f], 1, 120)
          found[#found + 1] = -tonumber(all[f + 1]) - self.ms
        end
      elseif pcall('HGET', key, 'lockproxy') == 'limit' then
        found = {'limit', left, 0}
        local all = pcall('HGETALL', key)
        for f = 1, #all, 2 do
          local over, value
          if tonumber(all[f]) then
            over, value = self:slotOf(all[f + 1])
          end
          if over and over >= self.ms then
            found[3] = found[3] + 1
            found[#found + 1] = all[f] .. ' ' .. sub(value, 1, 120)
            found[#found + 1] = over - self.ms
          end
        end
      end
      return found or {ok = 'OTHER'}
    end
  end

  -- A function that is not there yet is made with those of its kind.
  return setmetatable(tools, {__index = function(_, name)
    if name == 'S' or name == 'Q' or name == 'reader' or name == 'join' then
      makeReaders()
    elseif name == 'M' or name == 'N' then
      makeSeveral()
    elseif name == 'other' or name == 'release' or name == 'T' or name == 'K' or name == 'H'
      or name == 'inspect' then
      makeRest()
    else
      makeSlots()
    end
    return rawget(tools, name)
  end})
end
