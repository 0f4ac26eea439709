//! The result of routing: messages and their receivers.

use std::num::NonZero;
use std::sync::Arc;

use phalanx_mqtt::QoS;

use crate::model::client_key::ClientKey;
use crate::model::message::{Message, Source};

/// A message for one client, or a run: consecutive messages with the same receivers.
#[derive(Debug)]
pub(crate) struct Delivery {
    pub(crate) client: ClientKey,
    /// The index of the first message in the batch, and the number of messages.
    pub(crate) message: u32,
    pub(crate) count: u32,
    /// The delivery's ID in the journal; 0 if not stored. Stored messages are delivered one by one.
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
        self.get().iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
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
    /// The sum of the deliveries' messages.
    pub(crate) count: usize,
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
        self.count = 0;
    }

    /// Whether the batch has to be delivered: a delivery is recorded, or is a cut, which is for several sessions.
    pub(crate) fn must_arrive(&self) -> bool {
        self.deliveries.iter().any(|delivery| delivery.number != 0)
            || self.messages.iter().any(|message| message.source == Source::Cut)
    }

    /// Adds a delivery. All deliveries of a message are added consecutively.
    pub(crate) fn add(
        &mut self,
        client: ClientKey,
        message: &Arc<Message>,
        how: How,
    ) -> &mut Delivery {
        self.add_run(client, std::slice::from_ref(message), how)
    }

    /// Adds a delivery of a run. All deliveries of a run are added consecutively.
    pub(crate) fn add_run(
        &mut self,
        client: ClientKey,
        run: &[Arc<Message>],
        how: How,
    ) -> &mut Delivery {
        let last = self.messages.len().checked_sub(run.len());
        if !last.is_some_and(|last| Arc::ptr_eq(&self.messages[last], &run[0])) {
            self.messages.extend_from_slice(run);
        }
        let (message, count) = ((self.messages.len() - run.len()) as u32, run.len() as u32);
        self.count += run.len();
        self.deliveries.push(Delivery { client, message, count, number: 0, how });
        self.deliveries.last_mut().expect("inserted above")
    }

    /// The messages of a delivery.
    pub(crate) fn run(&self, delivery: &Delivery) -> &[Arc<Message>] {
        &self.messages[delivery.message as usize..][..delivery.count as usize]
    }
}
