//! A lock of lockproxy for the crate redis: save this file as lock.rs.
//!
//!     let proxies = Proxies::new(&["redis://10.0.0.1:6380", "redis://10.0.0.2:6380"])?; // once
//!     let (ttl, wait) = (Duration::from_secs(10), Duration::from_secs(5));
//!     with_lock(&proxies, "report", ttl, wait, |lock| {
//!         lock.check()?; // before each step that cannot be undone
//!         write("report", lock.fence)
//!     })??;
use redis::{cmd, Client, Connection, FromRedisValue, RedisError, RedisResult};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{mpsc, mpsc::RecvTimeoutError::Timeout, Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

#[derive(Debug)]
pub enum LockError { Taken(String), Lost(String), Redis(RedisError) } // the first two have the key

pub struct Proxies { all: Vec<(Client, Mutex<Vec<Connection>>)>, first: AtomicUsize }

impl Proxies {
    pub fn new(urls: &[&str]) -> RedisResult<Arc<Self>> {
        let open = |url: &&str| Ok((Client::open(*url)?, Mutex::default()));
        let all = urls.iter().map(open).collect::<RedisResult<_>>()?;
        Ok(Arc::new(Self { all, first: AtomicUsize::new(0) }))
    }

    /// Sends a command to the proxy in use. After an error the next one is in use.
    fn ask<T: FromRedisValue>(&self, timeout: Duration, words: &[&str]) -> RedisResult<T> {
        let at = self.first.load(SeqCst);
        let (client, idle) = &self.all[at];
        let taken = idle.lock().unwrap().pop();
        let connect = || client.get_connection_with_timeout(Duration::from_millis(500));
        let reply = taken.map_or_else(connect, Ok).and_then(|mut connection| {
            connection.set_read_timeout(Some(timeout))?;
            let reply = cmd(words[0]).arg(&words[1..]).query(&mut connection)?; // or it is closed
            idle.lock().unwrap().push(connection);
            Ok(reply)
        });
        reply.inspect_err(|_| self.first.store((at + 1) % self.all.len(), SeqCst))
    }
}

pub struct Lock { key: String, until: Mutex<Instant>, pub fence: i64 }

impl Lock {
    pub fn held(&self) -> bool { Instant::now() < *self.until.lock().unwrap() }

    pub fn check(&self) -> Result<(), LockError> {
        if self.held() { Ok(()) } else { Err(LockError::Lost(self.key.clone())) }
    }
}

/// Runs work under the lock of key, which a thread renews meanwhile. With no wait it tries once.
pub fn with_lock<T>(proxies: &Arc<Proxies>, key: &str, ttl: Duration, wait: Duration,
                    work: impl FnOnce(&Lock) -> T) -> Result<T, LockError> {
    let (start, mut tries, second) = (Instant::now(), 0, Duration::from_secs(1));
    let (millis, step) = (ttl.as_millis().to_string(), (wait / 3).clamp(second, 10 * second));
    let passes = |e: &RedisError| matches!(e.code(), None | Some("NOQUORUM" | "TRYAGAIN"));
    let (token, fence, validity) = loop { // a proxy that hangs costs a step and a second
        tries += 1;
        let left = step.min(wait.saturating_sub(start.elapsed())).as_millis().max(1).to_string();
        let words = ["LOCK", key, &millis, "FULL", "WAIT", &left];
        let words = &words[..if wait.is_zero() { 4 } else { 6 }]; // WAIT 0 would wait for ever
        let reply = proxies.ask::<Option<(String, i64, u64)>>(step + second, words);
        let over = start.elapsed() >= wait;
        match reply {
            Ok(Some(granted)) => break granted,
            Ok(None) if over => return Err(LockError::Taken(key.into())),
            Err(e) if over && tries >= proxies.all.len() || !passes(&e) => {
                return Err(LockError::Redis(e));
            }
            _ => thread::sleep(Duration::from_millis(50)),
        }
    };
    let waited = start.elapsed() > ttl / 10; // then an EXTEND tells how much is left
    let validity = if waited { start.elapsed() + ttl } else { Duration::from_millis(validity) };
    let lock = Arc::new(Lock { key: key.into(), until: Mutex::new(start + validity), fence });
    let (renewed, to, secret) = (lock.clone(), proxies.clone(), token.clone());
    let extend = move |lock: &Lock| { // returns the pause until the next call
        let (sent, words) = (Instant::now(), ["EXTEND", &lock.key, &secret, &millis, "FULL"]);
        let Ok((_, validity)) = to.ask::<(i64, u64)>(ttl / 4, &words) else { return ttl / 20 };
        *lock.until.lock().unwrap() = sent + Duration::from_millis(validity); // 0 if it is lost
        ttl / 3
    };
    while waited && lock.held() && extend(&lock) < ttl / 3 { thread::sleep(ttl / 20) }
    lock.check()?;
    let (mut pause, (end, ended)) = (ttl / 3, mpsc::channel::<()>()); // ended: end is dropped
    thread::spawn(move || while ended.recv_timeout(pause) == Err(Timeout) && renewed.held() {
        pause = extend(&renewed);
    });
    let result = work(&lock);
    drop(end);
    lock.check()?;
    let unlock = || proxies.ask::<i64>(Duration::from_millis(500), &["UNLOCK", key, &token]);
    let kept = unlock().or_else(|_| unlock().and(Ok(1))); // the first may have done it
    if let Ok(0) = kept { Err(LockError::Lost(key.into())) } else { Ok(result) } // or it runs out
}
