//! The number of workers: fixed, or a range.

use phalanx_config::{Given, Value, Written};

/// The largest number of workers.
const MAX_WORKERS: usize = 1024;

/// TOML form of a fixed number or a range of workers.
pub(crate) struct Workers;

/// The minimum and the maximum number.
pub(crate) type Range = (usize, usize);

impl Value<Range> for Workers {
    fn kind() -> String {
        "number|range".into()
    }

    fn expected() -> String {
        format!("a number from 1 to {MAX_WORKERS}, or a range such as \"1..8\"")
    }

    fn read(value: &Given<'_>) -> Result<Range, String> {
        let (min, max) = match value.as_str() {
            Some(text) => {
                let (min, max) = text.split_once("..").unwrap_or((text, text));
                let number = |text: &str| text.trim().parse::<usize>().map_err(|_| String::new());
                (number(min)?, number(max)?)
            }
            None => {
                let number = usize::try_from(phalanx_config::integer(value)?);
                let number = number.map_err(|_| String::new())?;
                (number, number)
            }
        };
        match (1..=MAX_WORKERS).contains(&min) && (min..=MAX_WORKERS).contains(&max) {
            true => Ok((min, max)),
            false => Err(String::new()),
        }
    }

    fn print(&(min, max): &Range) -> Written {
        match min == max {
            true => Written::Integer(max as i64),
            false => format!("{min}..{max}").into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use phalanx_config::{Origins, read};

    use crate::RuntimeConfig;

    fn config(text: &str) -> Result<RuntimeConfig, String> {
        let mut config = RuntimeConfig::default();
        let read = read(&mut config, text, "a.toml", "".as_ref(), &mut Origins::default());
        read.map(|_| config).map_err(|errors| errors[0].to_string())
    }

    #[test]
    fn workers_are_a_number_or_a_range() {
        let workers = |text: &str| config(text).map(|config| (config.min_workers, config.workers));
        assert_eq!(workers("workers = 4"), Ok((None, 4)));
        assert_eq!(workers("workers = '4'"), Ok((None, 4)));
        assert_eq!(workers("workers = '2..8'"), Ok((Some(2), 8)));
        assert_eq!(workers("workers = '8..8'"), Ok((None, 8)));
        for invalid in ["0", "1025", "'3..2'", "'0..2'", "'2..'", "'1..2..3'", "true", "-1"] {
            let error = workers(&format!("workers = {invalid}")).unwrap_err();
            assert!(error.contains("1 to 1024") && error.contains("1..8"), "{invalid}: {error}");
        }
    }

    #[test]
    fn a_range_is_printed_as_it_was_read() {
        let config = config("workers = '2..8'\nplacement = 'advise'").unwrap();
        let table = phalanx_config::table(&config);
        assert_eq!(table["workers"].as_str(), Some("2..8"));
        assert_eq!(table["placement"].as_str(), Some("advise"));
        let fixed = phalanx_config::table(&RuntimeConfig { workers: 3, ..config });
        assert_eq!(fixed["workers"].as_str(), Some("2..3"));
    }
}
