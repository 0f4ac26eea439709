//! The result of routing: messages and their receivers.

use std::num::NonZero;
use std::sync::Arc;

use phalanx_mqtt::QoS;

use crate::model::client_key::ClientKey;
use crate::model::message::{Message, Source};

/// A message for one client.
#[derive(Debug)]
pub(crate) struct Delivery {
    pub(crate) client: ClientKey,
    /// The index of the message in the batch.
    pub(crate) message: u32,
    /// The delivery's ID in the journal; 0 if not stored.
    pub(crate) number: u64,
    pub(crate) how: How,
}

/// The options with which a message is sent to a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct How {
    pub(crate) qos: QoS,
    pub(crate) retain: bool,
    pub(crate) identifiers: Identifiers,
}

/// The subscription identifiers of a delivery; usually none or one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Identifiers {
    #[default]
    None,
    One([u32; 1]),
    Many(Vec<u32>),
}

impl Identifiers {
    pub(crate) fn of(identifier: Option<NonZero<u32>>) -> Self {
        identifier.map_or(Self::None, |identifier| Self::One([identifier.get()]))
    }

    pub(crate) fn add(&mut self, identifier: Option<NonZero<u32>>) {
        let Some(identifier) = identifier.map(NonZero::get) else { return };
        match self {
            Self::None => *self = Self::One([identifier]),
            Self::One([one]) => *self = Self::Many(vec![*one, identifier]),
            Self::Many(many) => many.push(identifier),
        }
    }

    /// Appends the encoding for the journal.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        self.get().iter().for_each(|own| out.extend_from_slice(&own.to_le_bytes()));
    }

    pub(crate) fn get(&self) -> &[u32] {
        match self {
            Self::None => &[],
            Self::One(one) => one,
            Self::Many(many) => many,
        }
    }
}

/// The deliveries of one cohort to one partition.
#[derive(Debug, Default)]
pub(crate) struct DeliveryBatch {
    pub(crate) messages: Vec<Arc<Message>>,
    pub(crate) deliveries: Vec<Delivery>,
}

/// Capacity that a cleared batch keeps, in messages and in deliveries.
const POOL_ITEM_CAP: usize = 4096;

impl DeliveryBatch {
    /// Clears the batch, and keeps its buffers.
    pub(crate) fn clear(&mut self) {
        self.messages.clear();
        self.messages.shrink_to(POOL_ITEM_CAP);
        self.deliveries.clear();
        self.deliveries.shrink_to(POOL_ITEM_CAP);
    }

    /// Whether the batch has to be delivered: a delivery is recorded, or is a cut, which is for several sessions.
    pub(crate) fn must_arrive(&self) -> bool {
        self.deliveries.iter().any(|own| own.number != 0)
            || self.messages.iter().any(|message| message.source == Source::Cut)
    }

    /// Adds a delivery. All deliveries of a message are added consecutively.
    pub(crate) fn add(
        &mut self,
        client: ClientKey,
        message: &Arc<Message>,
        how: How,
    ) -> &mut Delivery {
        if !self.messages.last().is_some_and(|last| Arc::ptr_eq(last, message)) {
            self.messages.push(message.clone());
        }
        let message = self.messages.len() as u32 - 1;
        self.deliveries.push(Delivery { client, message, number: 0, how });
        self.deliveries.last_mut().expect("inserted above")
    }
}
