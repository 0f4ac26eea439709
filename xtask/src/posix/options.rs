//! The arguments of `cargo xtask posix`.

use std::path::PathBuf;

/// What to run.
#[derive(Debug, PartialEq)]
pub(super) struct Options {
    /// The folder `open_posix_testsuite`.
    pub(super) suite: PathBuf,
    /// Beginnings of names of tests; none selects all.
    pub(super) filters: Vec<String>,
    pub(super) carriers: usize,
    pub(super) jobs: usize,
}

impl Options {
    /// Parses `DIR [--carriers N] [--jobs N] [FILTER..]`.
    pub(super) fn parse(arguments: &[String]) -> Result<Options, String> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let (mut carriers, mut jobs, mut rest) = (2, processors, Vec::new());
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let value = match argument.as_str() {
                "--carriers" => &mut carriers,
                "--jobs" => &mut jobs,
                other if other.starts_with('-') => return Err(format!("unknown option `{other}`")),
                other => {
                    rest.push(other.to_owned());
                    continue;
                }
            };
            let number = arguments.next().and_then(|text| text.parse().ok());
            *value = number
                .filter(|number| *number > 0)
                .ok_or_else(|| format!("{argument} requires a positive number"))?;
        }
        if rest.is_empty() {
            return Err("name the folder open_posix_testsuite of the Linux Test Project".to_owned());
        }
        let suite = PathBuf::from(rest.remove(0));
        Ok(Options { suite, filters: rest, carriers, jobs })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Options, String> {
        Options::parse(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn options_may_stand_anywhere() {
        let options = parse("suite --carriers 3 sem_ --jobs 7 pthread_").unwrap();
        assert_eq!(options.suite, PathBuf::from("suite"));
        assert_eq!(options.filters, ["sem_", "pthread_"]);
        assert_eq!((options.carriers, options.jobs), (3, 7));
    }

    #[test]
    fn malformed_arguments_are_errors() {
        for text in ["", "--jobs 2", "suite --jobs", "suite --jobs 0", "suite --fast"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
