//! Value types specific to the broker's keys.

use std::marker::PhantomData;
use std::path::Path;
use std::time::Duration;

use phalanx_config::{Given, Value, Written};

use crate::config::WhenFull;

/// A boolean: whether the oldest message is dropped.
pub(super) struct DropOldest;

impl Value<WhenFull> for DropOldest {
    fn kind() -> String {
        bool::kind()
    }

    fn expected() -> String {
        <bool as Value>::expected()
    }

    fn read(value: &Given<'_>) -> Result<WhenFull, String> {
        Ok(if bool::read(value)? { WhenFull::DropOldest } else { WhenFull::DropNewest })
    }

    fn print(value: &WhenFull) -> Written {
        (*value == WhenFull::DropOldest).into()
    }
}

/// The form `F`, or `"broker"` for the value of the broker.
pub(super) struct OrOfBroker<F>(PhantomData<F>);

/// The value of the broker.
const OF_BROKER: &str = "broker";

impl<T, F: Value<T>> Value<Option<T>> for OrOfBroker<F> {
    const LIST: bool = F::LIST;

    fn kind() -> String {
        format!("{}|{OF_BROKER}", F::kind())
    }

    fn expected() -> String {
        format!("{}, or {OF_BROKER:?} for the value of the broker", F::expected())
    }

    fn read(value: &Given<'_>) -> Result<Option<T>, String> {
        match value.as_str() {
            Some(OF_BROKER) => Ok(None),
            _ => F::read(value).map(Some),
        }
    }

    fn print(value: &Option<T>) -> Written {
        value.as_ref().map_or(OF_BROKER.into(), F::print)
    }

    fn resolve(value: &mut Option<T>, base: &Path) {
        if let Some(value) = value {
            F::resolve(value, base);
        }
    }
}

/// A duration in whole seconds; `false` for no limit.
fn seconds(value: &Given<'_>) -> Result<Option<u64>, String> {
    let Some(time) = Option::<Duration>::read(value)? else { return Ok(None) };
    match time.subsec_nanos() {
        0 => Ok(Some(time.as_secs())),
        _ => Err("the protocol uses whole seconds".into()),
    }
}

/// A keep-alive in seconds; 0 for no limit.
pub(super) struct KeepAlive;

impl Value<u16> for KeepAlive {
    fn kind() -> String {
        Option::<Duration>::kind()
    }

    fn expected() -> String {
        "a time from \"1s\" to \"65535s\", or false for none".into()
    }

    fn read(value: &Given<'_>) -> Result<u16, String> {
        let Some(seconds) = seconds(value)? else { return Ok(0) };
        u16::try_from(seconds).ok().filter(|seconds| *seconds > 0).ok_or_else(String::new)
    }

    fn print(value: &u16) -> Written {
        match value {
            0 => false.into(),
            seconds => format!("{seconds}s").into(),
        }
    }
}

/// A session expiry interval in seconds; `u32::MAX` for no expiry.
pub(super) struct Expiry;

impl Value<u32> for Expiry {
    fn kind() -> String {
        Option::<Duration>::kind()
    }

    fn expected() -> String {
        "a time such as \"30s\", \"2h\" or \"7d\", or false for no expiry".into()
    }

    fn read(value: &Given<'_>) -> Result<u32, String> {
        let Some(seconds) = seconds(value)? else { return Ok(u32::MAX) };
        u32::try_from(seconds).map_err(|_| String::new())
    }

    fn print(value: &u32) -> Written {
        match value {
            &u32::MAX => false.into(),
            seconds => format!("{seconds}s").into(),
        }
    }
}
