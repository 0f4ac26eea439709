//! Limits per client address: connections, request rate, and login attempts; lists of networks; the clients behind
//! proxies.
//!
//! ```
//! use std::time::Duration;
//! use phalanx_guard::{AddressKey, Addresses, Bounds};
//!
//! let bounds = Bounds { connections: Some(1), per_second: None, burst: 0 };
//! let table = Addresses::new(bounds).expect("there is a bound");
//! let now = Duration::from_secs(1);
//! let open = table.open(AddressKey::new(7), now);
//! assert!(open.is_some() && table.open(AddressKey::new(7), now).is_none());
//! ```

#![forbid(unsafe_code)]

mod addresses;
mod failures;
mod forwarded;
mod logins;
mod networks;
pub mod proxy_protocol;

pub use addresses::{AddressKey, Addresses, Bounds, Open, client, network};
pub use forwarded::{ForwardedField, TrustedProxies};
pub use logins::{CLIENT_FAILURES, Login, Logins, PAIR_FAILURES, Refusal};
pub use networks::{AddressRules, Network, Networks};
pub use proxy_protocol::ProxyHeaderError;
