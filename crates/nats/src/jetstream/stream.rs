//! Creates, shows, purges and deletes streams.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{JetStream, JetStreamError};

/// A stream to create: stored in files, without limits of size or age, readable by number at all replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamConfig {
    /// Its name, without dots, spaces and wildcards.
    pub name: String,
    /// The filters of the subjects that it stores.
    pub subjects: Vec<String>,
    /// The servers that store it: 1 to 5. More than one needs a NATS cluster.
    pub replicas: u32,
    /// Maximum number of messages of a subject. Earlier ones are removed.
    pub per_subject: Option<u32>,
}

/// The state of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamState {
    /// The number of the first stored message; the number after the last one if there is none.
    pub first: u64,
    /// The number of the last message ever stored; 0 if there was none.
    pub last: u64,
    /// The size of the stored messages, in bytes.
    pub bytes: u64,
    /// The number of servers that store it.
    pub replicas: u32,
    /// The creation time, as text. It changes if the stream is created again. Clusters of servers up to 2.12.14 also
    /// change it if a client creates a stream that exists; [`create`](JetStream::create) does not.
    pub created: String,
}

/// The use of JetStream by an account.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
pub struct Account {
    /// The number of streams, and their size on disk in bytes.
    pub streams: u64,
    /// See [`streams`](Self::streams).
    pub storage: u64,
    /// The limits of the account.
    pub limits: Limits,
}

/// The limits of an account; negative for none.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of streams.
    pub max_streams: i64,
    /// Maximum size of the streams on disk, in bytes.
    pub max_storage: i64,
}

/// The encoding of [`StreamConfig`].
#[derive(Serialize)]
struct Config<'a> {
    name: &'a str,
    subjects: &'a [String],
    retention: &'a str,
    storage: &'a str,
    discard: &'a str,
    num_replicas: u32,
    max_msgs_per_subject: i64,
    max_consumers: i64,
    max_msgs: i64,
    max_bytes: i64,
    max_age: u64,
    duplicate_window: u64,
    allow_direct: bool,
}

#[derive(Deserialize)]
struct StreamInfo {
    config: DescribedConfig,
    state: DescribedState,
    #[serde(default)]
    created: String,
}

/// The streams of a filter.
#[derive(Deserialize)]
struct Found {
    total: u64,
}

#[derive(Deserialize)]
struct DescribedConfig {
    num_replicas: u32,
    subjects: Vec<String>,
    #[serde(default = "unlimited")]
    max_msgs_per_subject: i64,
}

#[derive(Deserialize)]
struct DescribedState {
    first_seq: u64,
    last_seq: u64,
    bytes: u64,
}

/// Time in which the servers recognize repeated messages by a header, which this client does not send.
const DUPLICATE_WINDOW: Duration = Duration::from_secs(1);

fn unlimited() -> i64 {
    -1
}

/// The error for a stream that exists with other settings.
const OTHER_SETTINGS: u32 = 10058;

impl From<StreamInfo> for StreamState {
    fn from(StreamInfo { config, state, created }: StreamInfo) -> Self {
        let DescribedState { first_seq, last_seq: last, bytes } = state;
        // The server reports 0 for a stream that never had a message.
        Self { first: first_seq.max(1), last, bytes, replicas: config.num_replicas, created }
    }
}

impl JetStream {
    /// Creates a stream, or finds that it exists with the same settings. The number of replicas of an existing stream
    /// is increased if necessary, but never decreased.
    ///
    /// # Errors
    /// [`JetStreamError`]; [`Refused`](JetStreamError::Refused) if the stream exists with other settings, or if there
    /// are fewer servers than replicas.
    pub async fn create(&self, config: &StreamConfig) -> Result<StreamState, JetStreamError> {
        // Looked up first, because clusters of servers up to 2.12.14 change the creation time if an existing stream is
        // created again.
        let described = match self.describe(&config.name).await {
            Err(JetStreamError::NoStream) => match self.configure("CREATE", config).await {
                // Another client has just created it.
                Err(JetStreamError::Refused(OTHER_SETTINGS, _)) => {
                    self.describe(&config.name).await?
                }
                created => return created,
            },
            described => described?,
        };
        let DescribedConfig { num_replicas, subjects, max_msgs_per_subject } = &described.config;
        let per_subject = config.per_subject.map_or(-1, i64::from);
        if *subjects != config.subjects || *max_msgs_per_subject != per_subject {
            // The server refuses it, with the reason.
            return self.configure("CREATE", config).await;
        }
        match *num_replicas < config.replicas {
            true => self.configure("UPDATE", config).await,
            false => Ok(described.into()),
        }
    }

    /// Creates or updates a stream.
    async fn configure(
        &self,
        method: &str,
        config: &StreamConfig,
    ) -> Result<StreamState, JetStreamError> {
        let StreamConfig { name, subjects, replicas, per_subject } = config;
        let encoded = Config {
            name,
            subjects,
            retention: "limits",
            storage: "file",
            discard: "old",
            num_replicas: *replicas,
            max_msgs_per_subject: per_subject.map_or(-1, i64::from),
            max_consumers: -1,
            max_msgs: -1,
            max_bytes: -1,
            max_age: 0,
            duplicate_window: DUPLICATE_WINDOW.as_nanos() as u64,
            allow_direct: true,
        };
        let payload = serde_json::to_vec(&encoded).unwrap_or_default();
        let described: StreamInfo = self.ask(method, name, &payload).await?;
        Ok(described.into())
    }

    /// The state of a stream, as its leader knows it.
    ///
    /// # Errors
    /// [`JetStreamError`].
    pub async fn state(&self, stream: &str) -> Result<StreamState, JetStreamError> {
        self.describe(stream).await.map(StreamState::from)
    }

    async fn describe(&self, stream: &str) -> Result<StreamInfo, JetStreamError> {
        self.ask("INFO", stream, b"").await
    }

    /// The use of JetStream by the client's account.
    ///
    /// # Errors
    /// [`JetStreamError`]; [`Unavailable`](JetStreamError::Unavailable) if the account has no JetStream.
    pub async fn account(&self) -> Result<Account, JetStreamError> {
        self.send("$JS.API.INFO", None, b"")?.await_answer().await?.decode()
    }

    /// Whether a stream stores subjects that match a filter.
    ///
    /// # Errors
    /// [`JetStreamError`].
    pub async fn is_stored(&self, filter: &str) -> Result<bool, JetStreamError> {
        let payload = serde_json::json!({ "subject": filter }).to_string();
        let request = self.send("$JS.API.STREAM.NAMES", None, payload.as_bytes())?;
        let found: Found = request.await_answer().await?.decode()?;
        Ok(found.total > 0)
    }

    /// Removes the messages before number `first`.
    ///
    /// # Errors
    /// [`JetStreamError`].
    pub async fn purge(&self, stream: &str, first: u64) -> Result<(), JetStreamError> {
        let payload = format!("{{\"seq\":{first}}}");
        self.ask::<Value>("PURGE", stream, payload.as_bytes()).await.map(drop)
    }

    /// Removes the messages of a subject.
    ///
    /// # Errors
    /// [`JetStreamError`].
    pub async fn purge_subject(&self, stream: &str, subject: &str) -> Result<(), JetStreamError> {
        let payload = serde_json::json!({ "filter": subject }).to_string();
        self.ask::<Value>("PURGE", stream, payload.as_bytes()).await.map(drop)
    }

    /// Deletes a stream.
    ///
    /// # Errors
    /// [`JetStreamError`].
    pub async fn delete(&self, stream: &str) -> Result<(), JetStreamError> {
        self.ask::<Value>("DELETE", stream, b"").await.map(drop)
    }
}
