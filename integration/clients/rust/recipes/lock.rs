//! A lock of lockproxy for the crate redis: save this file as lock.rs.
//!
//!     let proxies = Proxies::new(&["redis://10.0.0.1:6380", "redis://10.0.0.2:6380"])?; // once
//!     let (ttl, wait) = (Duration::from_secs(10), Duration::from_secs(5));
//!     with_lock(&proxies, "report", ttl, wait, |lock| {
//!         lock.check()?; // before each step that cannot be undone
//!         write("report", lock.fence)
//!     })??;
use redis::{cmd, Client, Cmd, Connection, FromRedisValue, RedisError, RedisResult};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::{cmp, thread};
use std::time::{Duration, Instant};

#[derive(Debug)]
pub enum LockError { Taken(String), Lost(String), Redis(RedisError) } // the first two have the key

pub struct Proxies { clients: Vec<Client>, first: AtomicUsize, idle: Mutex<Vec<(usize, Connection)>> }

impl Proxies {
    pub fn new(urls: &[&str]) -> RedisResult<Arc<Self>> {
        let clients = urls.iter().map(|url| Client::open(*url)).collect::<RedisResult<_>>()?;
        Ok(Arc::new(Self { clients, first: AtomicUsize::new(0), idle: Mutex::new(Vec::new()) }))
    }

    /// Sends a command to the proxy in use. After an error the next one is in use.
    fn ask<T: FromRedisValue>(&self, timeout: Duration, command: &Cmd) -> RedisResult<T> {
        let at = self.first.load(SeqCst);
        let reply = self.send(at, timeout, command);
        if reply.is_err() { self.first.store((at + 1) % self.clients.len(), SeqCst); }
        reply
    }

    fn send<T: FromRedisValue>(&self, at: usize, timeout: Duration, command: &Cmd) -> RedisResult<T> {
        let mut idle = self.idle.lock().unwrap();
        let place = idle.iter().position(|(of, _)| *of == at);
        let taken = place.map(|place| idle.swap_remove(place).1);
        drop(idle);
        let connect = || self.clients[at].get_connection_with_timeout(Duration::from_millis(500));
        let mut connection = taken.map_or_else(connect, Ok)?;
        connection.set_read_timeout(Some(timeout))?;
        let reply = command.query(&mut connection)?; // an error closes the connection
        self.idle.lock().unwrap().push((at, connection));
        Ok(reply)
    }
}

#[derive(Clone)]
pub struct Lock {
    proxies: Arc<Proxies>, key: String, token: String, ttl: Duration,
    until: Arc<Mutex<Instant>>, ended: Arc<AtomicBool>, pub fence: i64,
}

struct End(Arc<AtomicBool>);

impl Drop for End { fn drop(&mut self) { self.0.store(true, SeqCst) } }

/// Runs work under the lock of key, which a thread renews meanwhile. With no wait it tries once.
pub fn with_lock<T>(proxies: &Arc<Proxies>, key: &str, ttl: Duration, wait: Duration,
                    work: impl FnOnce(&Lock) -> T) -> Result<T, LockError> {
    let lock = Lock::take(proxies, key, ttl, wait)?;
    let _end = End(lock.ended.clone()); // of the renewals, also after a panic
    let result = work(&lock);
    lock.release().map(|_| result)
}

impl Lock {
    fn take(proxies: &Arc<Proxies>, key: &str, ttl: Duration, wait: Duration) -> Result<Lock, LockError> {
        let (start, mut failed, second) = (Instant::now(), 0, Duration::from_secs(1));
        let step = (wait / 3).clamp(second, 10 * second); // a proxy that hangs costs a step and a second
        loop {
            let sent = Instant::now();
            let mut lock = cmd("LOCK");
            lock.arg(key).arg(ttl.as_millis() as u64).arg("FULL");
            if !wait.is_zero() { // WAIT 0 would wait for ever
                let left = cmp::min(step, wait.saturating_sub(start.elapsed())).as_millis() as u64;
                lock.arg("WAIT").arg(cmp::max(1, left));
            }
            match proxies.ask::<Option<(String, i64, u64)>>(step + second, &lock) {
                Ok(Some((token, fence, validity))) => {
                    let waited = !wait.is_zero(); // the time since it was sent went into waiting
                    let from = if waited { Instant::now() } else { sent };
                    let until = Arc::new(Mutex::new(from + Duration::from_millis(validity)));
                    let (proxies, key, ended) = (proxies.clone(), key.to_string(), Arc::default());
                    let lock = Lock { proxies, key, token, ttl, until, ended, fence };
                    if waited { lock.extend(); }
                    lock.check()?;
                    let renewed = lock.clone();
                    thread::spawn(move || while renewed.goes_on(ttl / 3) { renewed.extend() });
                    return Ok(lock);
                }
                Ok(None) if start.elapsed() >= wait => return Err(LockError::Taken(key.into())),
                Ok(None) => {}
                Err(error) => {
                    failed += 1;
                    let last = failed >= proxies.clients.len() && start.elapsed() >= wait;
                    if last || !matches!(error.code(), None | Some("NOQUORUM" | "TRYAGAIN")) {
                        return Err(LockError::Redis(error));
                    }
                    thread::sleep(Duration::from_millis(50));
                }
            }
        }
    }

    pub fn held(&self) -> bool { Instant::now() < *self.until.lock().unwrap() }

    pub fn check(&self) -> Result<(), LockError> {
        if self.held() { Ok(()) } else { Err(LockError::Lost(self.key.clone())) }
    }

    /// After an error it tries again, until the lock is lost or released.
    fn extend(&self) {
        while self.held() {
            let sent = Instant::now();
            let mut extend = cmd("EXTEND");
            extend.arg(&self.key).arg(&self.token).arg(self.ttl.as_millis() as u64).arg("FULL");
            let reply = self.proxies.ask::<(i64, u64)>(self.ttl / 4, &extend);
            if let Ok((_, validity)) = reply { // of a lost lock validity is 0
                *self.until.lock().unwrap() = sent + Duration::from_millis(validity);
                return;
            }
            if !self.goes_on(self.ttl / 20) { return }
        }
    }

    /// Reports whether the lock is neither lost nor released after a pause.
    fn goes_on(&self, pause: Duration) -> bool {
        let end = Instant::now() + pause;
        while Instant::now() < end && !self.ended.load(SeqCst) { thread::sleep(Duration::from_millis(10)) }
        !self.ended.load(SeqCst) && self.held()
    }

    /// Fails if the lock was lost. It takes a second at most; without a reply the lock runs out.
    fn release(self) -> Result<(), LockError> {
        self.ended.store(true, SeqCst);
        self.check()?;
        let mut unlock = cmd("UNLOCK");
        unlock.arg(&self.key).arg(&self.token);
        for again in [false, true] { // the first UNLOCK may have done it, though no reply came
            match self.proxies.ask::<i64>(Duration::from_millis(500), &unlock) {
                Ok(0) if !again => return Err(LockError::Lost(self.key)),
                Ok(_) => break,
                Err(_) => {}
            }
        }
        Ok(())
    }
}
