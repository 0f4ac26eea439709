//! Parsers for arguments that several commands share.

use std::ops::RangeBounds;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, RangedU64ValueParser, TypedValueParser};
use clap::{Args, Command, ValueEnum};

/// The options of a command line with these arguments. The others have their defaults.
pub(crate) fn parse<O: Args>(arguments: impl IntoIterator<Item = String>) -> O {
    let command = O::augment_args(Command::new("options").no_binary_name(true));
    let matches = command.try_get_matches_from(arguments).expect("valid arguments");
    O::from_arg_matches(&matches).expect("options of their types")
}

/// The name of a value on the command line.
pub(crate) fn name(value: &impl ValueEnum) -> String {
    value.to_possible_value().expect("a visible value").get_name().to_owned()
}

/// A number within a range.
pub(crate) fn number(range: impl RangeBounds<u64>) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(range)
}

/// KiB of generated code in a stage.
pub(crate) fn kib() -> impl TypedValueParser<Value = u64> {
    PossibleValuesParser::new(["1", "2", "4", "8", "16", "32"])
        .map(|text| text.parse::<u64>().expect("a listed number"))
}

/// Parses a number of seconds, with or without an `s`, up to a day.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let number: f64 = text
        .strip_suffix('s')
        .unwrap_or(text)
        .parse()
        .map_err(|_| "expected a number of seconds, such as 10 or 0.5".to_owned())?;
    match number {
        0.0..=86_400.0 => Ok(Duration::from_secs_f64(number)),
        _ => Err("from 0 to 86400 seconds".to_owned()),
    }
}
