//! A JSON Web Key Set at a URL.
//!
//! If the keys are too old, a login starts a fetch and waits for it, and further logins wait for the same fetch. At
//! most one fetch is in progress. If it fails, the keys of the last successful one stay in use, up to a maximum age.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use phalanx::net::{IoTimeout, Resolver};
use phalanx::runtime::report;
use phalanx::shutdown::is_draining;
use phalanx::sync::oneshot;
use phalanx::time::now;

use super::key_set::{KeySet, MAX_BYTES};
use crate::http::{Endpoint, Fetcher, Request, exchange};

/// Time limit of a fetch.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Default lifetime of keys, and limits of the lifetime that a server states in `Cache-Control`.
const DEFAULT_LIFETIME: Duration = Duration::from_secs(300);
const MIN_LIFETIME: Duration = Duration::from_secs(60);
const MAX_LIFETIME: Duration = Duration::from_secs(86_400);

/// Minimum time between two fetches that tokens with unknown keys cause.
const MIN_INTERVAL: Duration = Duration::from_secs(10);

/// Delays after failures. Each delay is twice the previous one.
const FIRST_DELAY: Duration = Duration::from_secs(1);
const MAX_DELAY: Duration = Duration::from_secs(60);

/// Maximum number of logins that wait for a fetch. Further ones use the current keys.
const MAX_WAITING: usize = 1000;

/// The keys at a URL. Clones share them.
#[derive(Clone)]
pub struct RemoteKeys {
    endpoint: Arc<Endpoint>,
    max_age: Duration,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    keys: Option<Arc<KeySet>>,
    /// Start time of the fetch that returned the keys, by the runtime's clock.
    fetched: Duration,
    /// The end of the keys' lifetime, by the runtime's clock.
    due: Duration,
    /// The time before which no fetch begins.
    not_before: Duration,
    /// Failures since the last success.
    failures: u32,
    is_fetching: bool,
    waiting: Vec<oneshot::Sender<()>>,
}

/// The reason for a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// The keys must be current: fetch if their lifetime has ended.
    Current,
    /// A token names a key that is not in the set.
    Unknown,
}

impl fmt::Debug for RemoteKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RemoteKeys({})", self.endpoint)
    }
}

impl RemoteKeys {
    /// The keys at the URL of `endpoint`. Starts with the keys of `previous`, if it has the same URL and authorities,
    /// until the next fetch, which may begin immediately. If fetches fail, keys are used up to `max_age` after the
    /// fetch that returned them.
    pub fn new(endpoint: Endpoint, max_age: Duration, previous: Option<&Self>) -> Self {
        let same = previous.filter(|previous| previous.endpoint.is_as(&endpoint));
        let state = same.map(|previous| previous.state.clone()).unwrap_or_default();
        let keys = Self { endpoint: Arc::new(endpoint), max_age, state };
        let mut state = keys.state();
        (state.due, state.not_before) = (Duration::ZERO, Duration::ZERO);
        // The first failure after a reload is reported.
        state.failures = 0;
        drop(state);
        keys
    }

    pub(crate) fn keys(&self) -> Option<Arc<KeySet>> {
        let mut state = self.state();
        self.drop_expired(&mut state, now());
        state.keys.clone()
    }

    /// Drops keys beyond the maximum age.
    fn drop_expired(&self, state: &mut State, at: Duration) {
        let is_old = at.saturating_sub(state.fetched) > self.max_age;
        if is_old && state.keys.take().is_some() {
            let (url, days) = (&self.endpoint, self.max_age.as_secs_f64() / 86_400.0);
            report(format_args!(
                "{url}: the keys are older than {days:.1} days (keys-max-age); tokens are refused"
            ));
        }
    }

    /// Fetches the keys if necessary, and waits for the result. After a failure, a login waits only if it needs a key
    /// that is missing. Returns whether a fetch has ended.
    pub(crate) async fn fetch_if(&self, need: Need, fetcher: &Fetcher) -> bool {
        let (answer, must_start, must_wait) = {
            let mut state = self.state();
            let at = now();
            self.drop_expired(&mut state, at);
            let is_current = state.keys.is_some() && at < state.due;
            let may_start = state.is_fetching || at >= state.not_before;
            let has_room = state.waiting.len() < MAX_WAITING;
            if need == Need::Current && is_current || !may_start || !has_room {
                return false;
            }
            let (sender, answer) = oneshot::shared();
            let must_wait = need == Need::Unknown || state.keys.is_none() || state.failures == 0;
            if must_wait {
                state.waiting.push(sender);
            }
            (answer, !std::mem::replace(&mut state.is_fetching, true), must_wait)
        };
        if must_start {
            let result = Err(Some("the fetch could not be started".into()));
            let guard = FetchGuard { keys: self.clone(), result, started: now(), at: now() };
            let (stage, fetcher) = (fetcher.stage, fetcher.clone());
            // If the stage is full, the dropped guard answers the logins that wait.
            let _ = stage.dispatch(move |_| guard.run(fetcher));
        }
        must_wait && answer.await.is_some()
    }

    async fn fetch(&self, resolver: &Resolver) -> Result<(KeySet, Duration), String> {
        let (start, limit) = (now(), IoTimeout::after(TIMEOUT).until_shutdown());
        let wire = self.endpoint.connect(resolver, limit).await?;
        let fields = "Accept: application/json\r\nConnection: close\r\n";
        let request = Request { method: "GET", fields, body: b"", max_body: MAX_BYTES };
        let left = limit.remaining(now().saturating_sub(start));
        let answer = exchange(&wire, &self.endpoint, &request, left).await;
        let answer = answer.map_err(|error| error.to_string())?;
        if answer.status != 200 {
            return Err(format!("the server answered with status {}", answer.status));
        }
        let lifetime = answer.max_age.unwrap_or(DEFAULT_LIFETIME);
        Ok((KeySet::parse(&answer.body, false)?, lifetime.clamp(MIN_LIFETIME, MAX_LIFETIME)))
    }

    /// Stores the result of a fetch, and answers the logins that wait.
    fn finish(&self, result: FetchResult, (started, at): (Duration, Duration)) {
        let mut state = self.state();
        state.is_fetching = false;
        let line = match result {
            Ok((keys, lifetime)) => {
                (state.keys, state.fetched) = (Some(Arc::new(keys)), started);
                (state.due, state.not_before) = (at + lifetime, at + MIN_INTERVAL);
                let failures = std::mem::take(&mut state.failures);
                (failures > 0).then(|| format!("fetched again, after {failures} failures"))
            }
            Err(None) => None,
            Err(Some(error)) => {
                let delay = FIRST_DELAY.saturating_mul(1 << state.failures.min(10)).min(MAX_DELAY);
                state.not_before = at + delay;
                state.failures = state.failures.saturating_add(1);
                let rest = match state.keys {
                    Some(_) => "the keys of the last fetch stay in use",
                    None => "tokens are refused until it succeeds",
                };
                (state.failures == 1).then(|| format!("cannot fetch the keys: {error}; {rest}"))
            }
        };
        for waiting in std::mem::take(&mut state.waiting) {
            waiting.send(());
        }
        drop(state);
        if let Some(line) = line {
            report(format_args!("{}: {line}", self.endpoint));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The result of a fetch: the keys and their lifetime, or an error. The error is `None` if a shutdown has ended the
/// fetch.
type FetchResult = Result<(KeySet, Duration), Option<String>>;

/// A fetch in progress. Dropping it ends the fetch.
struct FetchGuard {
    keys: RemoteKeys,
    result: FetchResult,
    started: Duration,
    /// Start time of the fetch, later its end time.
    at: Duration,
}

impl FetchGuard {
    async fn run(mut self, fetcher: Fetcher) {
        self.result = Err(None);
        let fetched = self.keys.fetch(&fetcher.resolver).await;
        self.result = fetched.map_err(|error| (!is_draining()).then_some(error));
        self.at = now();
        let counter = if self.result.is_ok() { &fetcher.fetched } else { &fetcher.failed };
        counter.add(1);
    }
}

impl Drop for FetchGuard {
    fn drop(&mut self) {
        let mut result = std::mem::replace(&mut self.result, Err(None));
        if matches!(result, Err(None)) && !is_draining() {
            (result, self.at) = (Err(Some("the fetch was aborted".into())), now());
        }
        // Stored times are used, because the processor's clock may no longer exist.
        self.keys.finish(result, (self.started, self.at));
    }
}

#[cfg(test)]
mod tests {
    use phalanx::{Graph, Runtime};
    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    /// Simulates a panic of the operation.
    #[test]
    fn a_fetch_that_is_dropped_has_failed() {
        let endpoint = Endpoint::open("https://a.example/keys", None).unwrap();
        let keys = RemoteKeys::new(endpoint, TIMEOUT, None);
        let mut graph = Graph::new();
        let stage = graph.shared("stage", ());
        let fetched = keys.clone();
        let run = Runtime::new().processors(1).signals(false).run(graph, move |start| {
            let (keys, control) = (fetched.clone(), start.control());
            let drop_fetches = move |_| async move {
                let drop_fetch = |result| {
                    drop(FetchGuard { keys: keys.clone(), result, started: now(), at: now() });
                };
                drop_fetch(Err(None));
                control.drain();
                phalanx::shutdown::draining().await;
                drop_fetch(Err(None));
            };
            stage.dispatch(drop_fetches)?;
            Ok(())
        });
        run.unwrap();
        let state = keys.state();
        assert_eq!(state.failures, 1, "a drain is no failure");
        assert!(state.not_before >= FIRST_DELAY);
    }

    /// Keys from a server trusted by other authorities are not reused.
    #[test]
    fn keys_belong_to_a_url_and_its_authorities() {
        let folder = tempfile::tempdir().unwrap();
        let [first, same, other] = ["first", "same", "other"].map(|name| folder.path().join(name));
        let authority = || {
            let params = CertificateParams::new(Vec::new()).unwrap();
            params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem()
        };
        let pem = authority();
        for (path, text) in [(&first, &pem), (&same, &pem), (&other, &authority())] {
            std::fs::write(path, text).unwrap();
        }
        let keys = |url, path: &std::path::Path, previous: Option<&RemoteKeys>| {
            let endpoint = Endpoint::open(url, Some(path)).unwrap();
            RemoteKeys::new(endpoint, TIMEOUT, previous)
        };
        let (url, other_url) = ("https://a.example/keys", "https://a.example/others");
        let previous = keys(url, &first, None);
        previous.state().failures = 3;
        for (url, path, is_shared) in
            [(url, &same, true), (url, &other, false), (other_url, &same, false)]
        {
            let next = keys(url, path, Some(&previous));
            assert_eq!(Arc::ptr_eq(&next.state, &previous.state), is_shared, "{url} {path:?}");
            assert_eq!(next.state().failures, 0);
        }
    }
}
