//! What every server of the house says of how it is run ([`RuntimeConfig`]: with how many processors, by which driver,
//! where its admin pages are, and how it ends; the keys of a configuration's table `[runtime]`), how many connections
//! it has [room](RuntimeConfig::room_for_connections) for, which addresses are [listed twice](listed_twice), and how it hears that it is to read its configuration again
//! ([`Hangups`]).
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
mod hangups;
mod runtime;

pub use addresses::{EXPECTED as EXPECTED_ADDRESS, address, listed_twice, port_hint};
pub use hangups::{Ends, Hangups};
pub use runtime::RuntimeConfig;
