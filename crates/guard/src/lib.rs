//! What one client's address may do at a server: how many connections it may have, and how often it may ask.
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

pub use addresses::{AddressKey, Addresses, Bounds, Open, client};
