//! Settings and services shared by the servers: [`RuntimeConfig`] with the keys of the table `[runtime]`, the
//! [connection limit](RuntimeConfig::connection_limit), the validation of listen addresses
//! ([`duplicate_addresses`]), and reloading at SIGHUP ([`SighupHandler`]).
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

mod addresses;
mod descriptors;
mod runtime;
mod sighup;

pub use addresses::{EXPECTED as EXPECTED_ADDRESS, address, duplicate_addresses, port_hint};
pub use runtime::RuntimeConfig;
pub use sighup::{SighupHandle, SighupHandler};
