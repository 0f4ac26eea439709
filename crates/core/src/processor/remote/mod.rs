pub(crate) mod call;
pub(crate) mod outbox;
