//! The common parts of all servers: the settings of the runtime, listen addresses that change while the server runs,
//! and the operator's interface.
//!
//! | file | idea |
//! |---|---|
//! | `runtime` | the table `[runtime]` of a configuration |
//! | `connection_limit` | the limit on concurrent connections |
//! | `descriptors` | the numbers of connections and of open files that the descriptor limit allows |
//! | `address` | addresses of the network and paths of Unix sockets |
//! | `listen` | listen addresses as URLs |
//! | `listeners` | the bound addresses, on all processors |
//! | `operator` | readiness, reload and shutdown |
//! | `sighup` | the thread that handles SIGHUP |
//!
//! ```
//! use phalanx_config::{Origins, read};
//! use phalanx_service::RuntimeConfig;
//!
//! let mut config = RuntimeConfig::default();
//! read(&mut config, "workers = 4\nshutdown-timeout = '30s'", "a.toml", "".as_ref(), &mut Origins::default()).unwrap();
//! assert_eq!((config.workers, config.shutdown_timeout.as_secs()), (4, 30));
//! assert!(config.check().is_empty());
//! let _runtime = config.build();
//! ```

#![forbid(unsafe_code)]

mod address;
mod connection_limit;
mod descriptors;
mod listen;
mod listeners;
mod operator;
mod runtime;
mod sighup;
mod workers;

pub use address::{ListenAddress, UnixAddress, redirect_port};
pub use connection_limit::{ConnectionLimit, ConnectionPermit};
pub use descriptors::file_limit;
pub use listen::{BindError, Listen, Scheme, duplicate_addresses};
pub use listeners::{
    CommandQueues, Inherited, ListenerChange, ListenerControl, ListenerManager, Listeners,
    UnixFilesGuard,
};
pub use operator::{Operator, Reload, Reloaded, Serving, reload_at_sighup};
pub use runtime::{PlacementChoice, RuntimeConfig};
pub use sighup::{SighupHandle, SighupHandler};
