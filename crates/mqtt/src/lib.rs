//! A codec for MQTT 5 and 3.1.1, for clients and servers, as pure functions on bytes.
//!
//! The codec uses no socket and no clock. [`Frame::split`] finds the next packet in the input,
//! [`Packet::decode`] decodes it, and [`Packet::encode`] appends one to a buffer. Decoded packets borrow from
//! the input. Properties and subscriptions are validated once and then read from the bytes when needed, so
//! decoding calls no allocator.
//!
//! ```
//! use phalanx_mqtt::{Delivery, Frame, Packet, Properties, Publish, Version};
//!
//! let mut bytes = Vec::new();
//! let publish = Publish {
//!     topic: "doors/front",
//!     payload: b"open",
//!     delivery: Delivery::AtMostOnce,
//!     retain: false,
//!     duplicate: false,
//!     properties: Properties::NONE,
//! };
//! Packet::Publish(publish).encode(Version::V5, &mut bytes)?;
//!
//! let frame = Frame::split(&bytes, Frame::MAX_PACKET)?.expect("the packet is complete");
//! assert_eq!(frame.length(), bytes.len());
//! assert_eq!(Packet::decode(frame, Version::V5)?, Packet::Publish(publish));
//! # Ok::<(), phalanx_mqtt::Error>(())
//! ```
//!
//! Start with `frame.rs` and `packet/mod.rs`, then read the packets in the order of a session: `connect.rs`,
//! `subscribe.rs`, `publish.rs`, `content.rs`, `ack.rs`, `end.rs`. The folder `properties` contains the properties of
//! MQTT 5, `reason.rs` the reason codes, and [`topic`] topic names and filters.

#![forbid(unsafe_code)]

mod error;
mod frame;
mod packet;
mod properties;
mod reason;
pub mod topic;
mod version;
mod wire;

pub use error::Error;
pub use frame::{Frame, Kind};
pub use packet::{
    Ack, Auth, ConnAck, Connect, Delivery, Disconnect, Packet, PacketId, Publish, QoS,
    RetainHandling, SubAck, Subscribe, SubscribeOptions, SubscriptionBuffer, Subscriptions,
    UnsubAck, Unsubscribe, Will, check_content,
};
pub use properties::{Properties, PropertiesIter, Property, PropertyBuffer};
pub use reason::Reason;
pub use version::Version;
