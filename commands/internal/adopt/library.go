package adopt

import "time"

// row is a script of a lock library: a form that the table knows.
type row struct {
	source string // the library, its version, and the name of the script there
	action *action
	body   string // as the library sends it
}

// action describes the effect of a script. KEYS[1] is the lock.
type action struct {
	do    Do
	what  What
	value int // which of ARGV is the value; 0: none
	ttl   int // which of ARGV is the ttl; 0: none
	unit  time.Duration
	least int // how many of ARGV the script reads, if more than the value and the ttl

	// expires says that the script calls EXPIRE or PEXPIRE: a ttl of 0 or less releases the lock.
	expires bool
	reply   replies

	// adjust reads further arguments.
	adjust func(r *request, c *LockCommand, args [][]byte) *Refusal
}

var (
	oneOrNull = replies{Done: one, Renewed: one, NotHeld: null, Free: null}

	deleteIfEqual = &action{do: Release, value: 1, reply: oneOrZero}
	unlinkIfEqual = &action{do: Release, value: 1, reply: oneOrNull}
	// -1 says that the key is free.
	deleteOrFree      = &action{do: Release, value: 1, reply: replies{Done: one, NotHeld: zero, Free: minusOne}}
	deleteOrFreeMinus = &action{do: Release, value: 1, reply: replies{Done: one, NotHeld: minusTwo, Free: minusOne}}

	expireIfEqual        = &action{do: Refresh, value: 1, ttl: 2, unit: time.Millisecond, expires: true, reply: oneOrZero}
	expireIfEqualOrNull  = &action{do: Refresh, value: 1, ttl: 2, unit: time.Millisecond, expires: true, reply: oneOrNull}
	expireSecondsIfEqual = &action{do: Refresh, value: 1, ttl: 2, unit: time.Second, reply: oneOrZero, adjust: neverZero}
	expireSeconds        = &action{do: Refresh, value: 1, ttl: 2, unit: time.Second, expires: true, reply: oneOrZero}
	// ARGV[3] is "0" if the ttl is added to the rest.
	addIfEqual = &action{do: Refresh, value: 1, ttl: 2, unit: time.Millisecond, expires: true, least: 3, reply: oneOrZero,
		adjust: addIfZero}

	setIfAbsent = &action{do: Take, value: 1, ttl: 2, unit: time.Millisecond, reply: oneOrZero}
	setIfEqual  = &action{do: Refresh, value: 1, ttl: 2, unit: time.Millisecond, reply: oneOrZero}

	// ARGV[1] is a database, which is no part of a lock's name.
	setIfAbsentInDB   = &action{do: Take, value: 2, ttl: 3, unit: time.Millisecond, reply: oneOrZero}
	setIfEqualInDB    = &action{do: Refresh, value: 2, ttl: 3, unit: time.Millisecond, reply: oneOrZero}
	deleteIfEqualInDB = &action{do: Release, value: 2, reply: oneOrZero}

	setIfAbsentOrEqual = &action{do: RefreshOrTake, value: 1, ttl: 2, unit: time.Millisecond, reply: oneOrZero}
	obtainOrNull       = &action{do: RefreshOrTake, value: 1, ttl: 2, unit: time.Millisecond, reply: oneOrNull}
	obtainOrMinusOne   = &action{do: RefreshOrTake, value: 1, ttl: 2, unit: time.Millisecond,
		reply: replies{Done: one, Renewed: one, NotHeld: minusOne}}
	// A renewal answers a string, a grant a status.
	obtainOrString = &action{do: RefreshOrTake, value: 1, ttl: 2, unit: time.Millisecond,
		reply: replies{Done: status, Renewed: bulkOK, NotHeld: null}}
	// ARGV[3] is "yes" if a free key may be taken.
	obtainIfYes = &action{do: RefreshOrTake, value: 1, ttl: 2, unit: time.Millisecond, least: 3, reply: okOrNull,
		adjust: takeIfYes}
	// ARGV[2] says how many bytes of the value must be equal.
	obtainPrefix = &action{do: RefreshOrTake, value: 1, ttl: 3, unit: time.Millisecond, reply: okOrNull, adjust: prefix}

	restIfEqual  = &action{do: Read, what: ReadRestIfEqual, value: 1}
	valueAndRest = &action{do: Read, what: ReadValueAndRest}
)

// neverZero refuses the ttl of 0 seconds with which Laravel makes a lock last for ever.
func neverZero(r *request, _ *LockCommand, args [][]byte) *Refusal {
	if ms, ok := parseMillis(args[1], time.Second); ok && ms <= 0 {
		return r.noExpiry()
	}
	return nil
}

func addIfZero(_ *request, c *LockCommand, args [][]byte) *Refusal {
	c.Add = string(args[2]) == "0"
	return nil
}

func takeIfYes(_ *request, c *LockCommand, args [][]byte) *Refusal {
	if string(args[2]) != "yes" {
		c.Do = Refresh
	}
	return nil
}

func prefix(_ *request, c *LockCommand, args [][]byte) *Refusal {
	n, ok := parseMillis(args[1], time.Millisecond)
	if !ok || n <= 0 {
		return &Refusal{Text: "ERR value is not an integer or out of range", Reason: ReasonValue}
	}
	if n <= int64(len(c.Value)) { // else the lock's value must be equal as a whole
		c.Prefix = int(n)
	}
	return nil
}

// library has the scripts of lock libraries. Those of packages that can be installed have the
// exact bytes that the library sends, quoted to recognise them; their licences are MIT, BSD or
// Apache 2.0. The others (formOnly in the tests) are written anew in the form of the library's
// script.
var library = []row{
	{"redis-py 4.3.4: LUA_RELEASE_SCRIPT", deleteIfEqual,
		`
        local token = redis.call('get', KEYS[1])
        if not token or token ~= ARGV[1] then
            return 0
        end
        redis.call('del', KEYS[1])
        return 1
    `},
	{"redis-py 4.3.4: LUA_EXTEND_SCRIPT", addIfEqual,
		`
        local token = redis.call('get', KEYS[1])
        if not token or token ~= ARGV[1] then
            return 0
        end
        local expiration = redis.call('pttl', KEYS[1])
        if not expiration then
            expiration = 0
        end
        if expiration < 0 then
            return 0
        end

        local newttl = ARGV[2]
        if ARGV[3] == "0" then
            newttl = ARGV[2] + expiration
        end
        redis.call('pexpire', KEYS[1], newttl)
        return 1
    `},
	{"redis-py 4.3.4: LUA_REACQUIRE_SCRIPT", expireIfEqual,
		`
        local token = redis.call('get', KEYS[1])
        if not token or token ~= ARGV[1] then
            return 0
        end
        redis.call('pexpire', KEYS[1], ARGV[2])
        return 1
    `},
	{"RedBeat 2.4.2: LUA_EXTEND_TO_SCRIPT", expireIfEqual,
		`local v = redis.call("get", KEYS[1]) if not v or v ~= ARGV[1] then return 0 end ` +
			`local rest = redis.call("pttl", KEYS[1]) if not rest then rest = 0 end if rest < 0 then return 0 end ` +
			`redis.call("pexpire", KEYS[1], ARGV[2]) return 1`},
	{"redlock 4.2.0: lockScript", setIfAbsent,
		`
	-- Return 0 if an entry already exists.
	for i, key in ipairs(KEYS) do
		if redis.call("exists", key) == 1 then
			return 0
		end
	end

	-- Create an entry for each provided key.
	for i, key in ipairs(KEYS) do
		redis.call("set", key, ARGV[1], "PX", ARGV[2])
	end

	-- Return the number of entries added.
	return #KEYS
`},
	{"redlock 4.2.0: unlockScript", deleteIfEqual,
		`
	local count = 0
	for i, key in ipairs(KEYS) do
		-- Only remove entries for *this* lock value.
		if redis.call("get", key) == ARGV[1] then
			redis.pcall("del", key)
			count = count + 1
		end
	end

	-- Return the number of entries removed.
	return count
`},
	{"redlock 4.2.0: extendScript", setIfEqual,
		`
	-- Return 0 if an entry exists with a *different* lock value.
	for i, key in ipairs(KEYS) do
		if redis.call("get", key) ~= ARGV[1] then
			return 0
		end
	end

	-- Update the entry for each provided key.
	for i, key in ipairs(KEYS) do
		redis.call("set", key, ARGV[1], "PX", ARGV[2])
	end

	-- Return the number of entries updated.
	return #KEYS
`},
	{"redlock 5.0.0-beta.2: ACQUIRE_SCRIPT", setIfAbsent,
		`
  -- Return 0 if an entry already exists.
  for i, key in ipairs(KEYS) do
    if redis.call("exists", key) == 1 then
      return 0
    end
  end

  -- Create an entry for each provided key.
  for i, key in ipairs(KEYS) do
    redis.call("set", key, ARGV[1], "PX", ARGV[2])
  end

  -- Return the number of entries added.
  return #KEYS
`},
	{"redlock 5.0.0-beta.2: EXTEND_SCRIPT", setIfEqual,
		`
  -- Return 0 if an entry exists with a *different* lock value.
  for i, key in ipairs(KEYS) do
    if redis.call("get", key) ~= ARGV[1] then
      return 0
    end
  end

  -- Update the entry for each provided key.
  for i, key in ipairs(KEYS) do
    redis.call("set", key, ARGV[1], "PX", ARGV[2])
  end

  -- Return the number of entries updated.
  return #KEYS
`},
	{"redlock 5.0.0-beta.2: RELEASE_SCRIPT", deleteIfEqual,
		`
  local count = 0
  for i, key in ipairs(KEYS) do
    -- Only remove entries for *this* lock value.
    if redis.call("get", key) == ARGV[1] then
      redis.pcall("del", key)
      count = count + 1
    end
  end

  -- Return the number of entries removed.
  return count
`},
	{"@sesamecare-oss/redlock 1.4.0: ACQUIRE_SCRIPT", setIfAbsentInDB,
		`
  
  -- Protected call to execute SELECT command if supported
  redis.pcall("SELECT", tonumber(ARGV[1]))


  -- Return 0 if an entry already exists.
  for i, key in ipairs(KEYS) do
    if redis.call("exists", key) == 1 then
      return 0
    end
  end

  -- Create an entry for each provided key.
  for i, key in ipairs(KEYS) do
    redis.call("set", key, ARGV[2], "PX", ARGV[3])
  end

  -- Return the number of entries added.
  return #KEYS
`},
	{"@sesamecare-oss/redlock 1.4.0: EXTEND_SCRIPT", setIfEqualInDB,
		`
  
  -- Protected call to execute SELECT command if supported
  redis.pcall("SELECT", tonumber(ARGV[1]))


  -- Return 0 if an entry exists with a *different* lock value.
  for i, key in ipairs(KEYS) do
    if redis.call("get", key) ~= ARGV[2] then
      return 0
    end
  end

  -- Update the entry for each provided key.
  for i, key in ipairs(KEYS) do
    redis.call("set", key, ARGV[2], "PX", ARGV[3])
  end

  -- Return the number of entries updated.
  return #KEYS
`},
	{"@sesamecare-oss/redlock 1.4.0: RELEASE_SCRIPT", deleteIfEqualInDB,
		`
  
  -- Protected call to execute SELECT command if supported
  redis.pcall("SELECT", tonumber(ARGV[1]))


  local count = 0
  for i, key in ipairs(KEYS) do
    -- Only remove entries for *this* lock value.
    if redis.call("get", key) == ARGV[2] then
      redis.pcall("del", key)
      count = count + 1
    end
  end

  -- Return the number of entries removed.
  return count
`},
	{"redis-semaphore 5.8.0: expireIfEqualLua", expireIfEqual,
		`
  local key = KEYS[1]
  local identifier = ARGV[1]
  local lockTimeout = ARGV[2]

  local value = redis.call('get', key)

  if value == identifier then
    redis.call('pexpire', key, lockTimeout)
    return 1
  end

  return 0
  `},
	{"redis-semaphore 5.8.0: delIfEqualLua", deleteIfEqual,
		`
  local key = KEYS[1]
  local identifier = ARGV[1]

  if redis.call('get', key) == identifier then
    return redis.call('del', key)
  end

  return 0
  `},
	{"ioredis-lock 4.0.0: delifequal", deleteIfEqual,
		`if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("DEL", KEYS[1])
end
return 0`},
	{"ioredis-lock 4.0.0: pexpireifequal", expireIfEqual,
		`if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("PEXPIRE", KEYS[1], ARGV[2])
end
return 0`},
	{"@microfleet/ioredis-lock 6.0.1: delifequal", deleteIfEqual,
		`
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("DEL", KEYS[1])
end
return 0`},
	{"@microfleet/ioredis-lock 6.0.1: pexpireifequal", expireIfEqual,
		`
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("PEXPIRE", KEYS[1], ARGV[2])
end
return 0
`},
	{"@verrou/core 0.5.2: delete", deleteIfEqual,
		`
      if redis.call("get", KEYS[1]) == ARGV[1] then
        return redis.call("del", KEYS[1])
      else
        return 0
      end
    `},
	{"@verrou/core 0.5.2: extend", expireIfEqual,
		`
      if redis.call("get", KEYS[1]) == ARGV[1] then
        return redis.call("pexpire", KEYS[1], ARGV[2])
      else
        return 0
      end
    `},
	{"bsm/redislock 0.9.4: luaObtain", obtainPrefix,
		`
if redis.call("set", KEYS[1], ARGV[1], "NX", "PX", ARGV[3]) then return ` +
			`redis.status_reply("OK") end

local offset = tonumber(ARGV[2])
if redis.call("getrange", KEYS[1], 0, offset-1) == string.sub(ARGV[1], 1, offset) then return ` +
			`redis.call("set", KEYS[1], ARGV[1], "PX", ARGV[3]) end
`},
	{"bsm/redislock 0.9.4: luaRefresh", expireIfEqual,
		`if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("pexpire", KEYS[1], ARGV[2]) ` +
			`else return 0 end`},
	{"bsm/redislock 0.9.4: luaRelease", deleteIfEqual,
		`if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 ` +
			`end`},
	{"bsm/redislock 0.9.4: luaPTTL", restIfEqual,
		`if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("pttl", KEYS[1]) else return ` +
			`-3 end`},
	{"redsync 4.18.1: deleteScript", deleteOrFree,
		`
	local val = redis.call("GET", KEYS[1])
	if val == ARGV[1] then
		return redis.call("DEL", KEYS[1])
	elseif val == false then
		return -1
	else
		return 0
	end
`},
	{"redsync 4.18.1: touchWithSetNXScript", setIfAbsentOrEqual,
		`
	if redis.call("GET", KEYS[1]) == ARGV[1] then
		return redis.call("PEXPIRE", KEYS[1], ARGV[2])
	elseif redis.call("SET", KEYS[1], ARGV[1], "PX", ARGV[2], "NX") then
		return 1
	else
		return 0
	end
`},
	{"redsync 4.18.1: touchScript", expireIfEqual,
		`
	if redis.call("GET", KEYS[1]) == ARGV[1] then
		return redis.call("PEXPIRE", KEYS[1], ARGV[2])
	else
		return 0
	end
`},
	{"go-zero 1.10.3: lockscript.lua", obtainOrString,
		`if redis.call("GET", KEYS[1]) == ARGV[1] then
    redis.call("SET", KEYS[1], ARGV[1], "PX", ARGV[2])
    return "OK"
else
    return redis.call("SET", KEYS[1], ARGV[1], "NX", "PX", ARGV[2])
end`},
	{"go-zero 1.10.3: delscript.lua", deleteIfEqual,
		`if redis.call("GET", KEYS[1]) == ARGV[1] then
    return redis.call("DEL", KEYS[1])
else
    return 0
end`},
	{"Dapr components-contrib 1.18.0: unlockScript", deleteOrFreeMinus,
		`local v = redis.call("get",KEYS[1]); if v==false then return -1 end; if v~=ARGV[1] then return ` +
			`-2 else return redis.call("del",KEYS[1]) end`},
	{"rslock 0.7.3: UNLOCK_SCRIPT", deleteIfEqual,
		`if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end`},
	{"rslock 0.7.3: EXTEND_SCRIPT", setIfEqual,
		`if redis.call("get", KEYS[1]) ~= ARGV[1] then return 0 else ` +
			`if redis.call("set", KEYS[1], ARGV[1], "PX", ARGV[2]) ~= nil then return 1 else return 0 end end`},
	{"Laravel 8.83.26: releaseLock", deleteIfEqual,
		`if redis.call("get",KEYS[1]) == ARGV[1] then
    return redis.call("del",KEYS[1])
else
    return 0
end`},
	{"Laravel 13.26.1: refreshLock", expireSecondsIfEqual,
		`if redis.call("get", KEYS[1]) == ARGV[1] then if tonumber(ARGV[2]) > 0 then ` +
			`return redis.call("expire", KEYS[1], ARGV[2]) end redis.call("persist", KEYS[1]) return 1 else return 0 end`},
	{"Spring Integration 7.0.6: OBTAIN_LOCK_SCRIPT", obtainOrNull,
		`local v = redis.call("get", KEYS[1]) if v == ARGV[1] then redis.call("pexpire", KEYS[1], ARGV[2]) ` +
			`return true elseif not v then redis.call("set", KEYS[1], ARGV[1], "PX", ARGV[2]) return true end return false`},
	{"Spring Integration 7.0.6: RENEW_SCRIPT", expireIfEqualOrNull,
		`if (redis.call("get", KEYS[1]) == ARGV[1]) then redis.call("pexpire", KEYS[1], ARGV[2]) return true end ` +
			`return false`},
	{"Spring Integration 7.0.6: UNLINK_UNLOCK_SCRIPT of RedisSpinLock", unlinkIfEqual,
		`local v = redis.call("get", KEYS[1]) if v == ARGV[1] then redis.call("unlink", KEYS[1]) return true end ` +
			`return false`},
	{"ShedLock 7.9.0: delLuaScript", deleteIfEqual,
		`if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end`},
	{"ShedLock 7.9.0: updLuaScript", expireIfEqual,
		`if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("pexpire", KEYS[1], ARGV[2]) else return 0 end`},
	{"RedLock.net 2.3.2: Unlock.lua", deleteIfEqual,
		`if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end`},
	{"RedLock.net 2.3.2: Extend.lua", obtainOrMinusOne,
		`local v = redis.call("get", KEYS[1]) if (v == false) then ` +
			`return redis.call("set", KEYS[1], ARGV[1], "PX", ARGV[2]) and 1 or 0 elseif (v == ARGV[1]) then ` +
			`return redis.call("pexpire", KEYS[1], ARGV[2]) else return -1 end`},
	{"DistributedLock.Redis 2.8: TryExtendScript", expireIfEqual,
		`if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("pexpire", KEYS[1], ARGV[2]) end return 0`},
	{"DistributedLock.Redis 2.8: ReleaseScript", deleteIfEqual,
		`if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) end return 0`},
	{"redlock-rb 2.0.6: UNLOCK_SCRIPT", deleteIfEqual,
		`if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end`},
	{"redlock-rb 2.0.6: LOCK_SCRIPT", obtainIfYes,
		`if (redis.call("exists", KEYS[1]) == 0 and ARGV[3] == "yes") or redis.call("get", KEYS[1]) == ARGV[1] then ` +
			`return redis.call("set", KEYS[1], ARGV[1], "PX", ARGV[2]) end`},
	{"redlock-rb 2.0.6: PTTL_SCRIPT", valueAndRest,
		`return {redis.call("get", KEYS[1]), redis.call("pttl", KEYS[1])}`},
	{"programs without a library: expire in seconds", expireSeconds,
		`if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("expire", KEYS[1], ARGV[2]) else return 0 end`},
}
