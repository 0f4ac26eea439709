pub(crate) mod cancel_flag;
pub(crate) mod slot;
pub(crate) mod state;
