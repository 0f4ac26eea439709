//! The load of a processor: the measured queue delay, and the mechanisms that depend on it.

use crate::control::input_throttle::InputThrottle;
use crate::stage::queue_delay::QueueDelay;
use crate::stage::tuner_state::TunerState;

pub(crate) struct Load {
    pub(crate) delay: QueueDelay,
    pub(crate) throttle: InputThrottle,
    pub(crate) tuner: TunerState,
}

impl Load {
    pub(crate) fn new(tuner: TunerState) -> Self {
        Self { delay: QueueDelay::default(), throttle: InputThrottle::default(), tuner }
    }
}
