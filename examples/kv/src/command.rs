//! Parses requests into commands.

use std::time::Duration;

use phalanx::net::Bytes;

use crate::fixed;
use crate::reply::Reply;
use crate::resp::Request;
use crate::store::{Action, OnlyIf, Set};

/// A parsed command.
#[derive(Debug)]
pub(crate) enum Command {
    /// No action: the answer is known.
    Answer(Reply),
    /// The answer, after which the connection closes.
    Quit,
    /// An action on one key, whose result is the answer.
    One(Vec<u8>, Action),
    /// An action on each of several keys, whose results are combined.
    Each(Vec<(Vec<u8>, Action)>, Gather),
    /// An action on every partition, whose results are combined.
    Everywhere(Whole, Gather),
    /// A step of an iteration over all keys.
    Scan { cursor: u64, pattern: Vec<u8>, count: usize },
}

/// An action on a whole partition.
#[derive(Clone, Debug)]
pub(crate) enum Whole {
    Count,
    Clear,
    Keys(Vec<u8>),
}

/// Combination of several results.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Gather {
    /// The only result.
    One,
    /// All results in the order of the keys.
    List,
    /// The sum of the results.
    Sum,
    /// A confirmation.
    Done,
    /// The concatenation of the resulting lists.
    Flatten,
    /// The number of keys, in the text of INFO.
    Info,
}

/// An error of a command, as sent to the client.
type Wrong = Reply;

const SYNTAX: &str = "ERR syntax error";
const NOT_AN_INTEGER: &str = "ERR value is not an integer or out of range";

impl Command {
    /// Parses `request`, which has at least one word.
    pub(crate) fn understand(mut request: Request) -> Self {
        let name = request.remove(0).to_ascii_uppercase();
        let arguments = Arguments { name: &name, words: request };
        Self::named(&name, arguments).unwrap_or_else(Self::Answer)
    }

    fn named(name: &[u8], mut arguments: Arguments<'_>) -> Result<Self, Wrong> {
        let one = |key, action| Ok(Self::One(key, action));
        match name {
            b"GET" => arguments.exactly().map(|[key]| Self::One(key, Action::Get)),
            b"SET" => set(arguments),
            b"DEL" | b"UNLINK" => arguments.each(|| Action::Delete, Gather::Sum),
            b"EXISTS" => arguments.each(|| Action::Exists, Gather::Sum),
            b"MGET" => arguments.each(|| Action::Get, Gather::List),
            b"MSET" => arguments.pairs(),
            b"INCR" => arguments.exactly().map(|[key]| Self::One(key, Action::Add(1))),
            b"DECR" => arguments.exactly().map(|[key]| Self::One(key, Action::Add(-1))),
            b"INCRBY" => {
                let [key, by] = arguments.exactly()?;
                one(key, Action::Add(integer(&by)?))
            }
            b"DECRBY" => {
                let [key, by] = arguments.exactly()?;
                let by = integer(&by)?.checked_neg().ok_or(Reply::error(NOT_AN_INTEGER))?;
                one(key, Action::Add(by))
            }
            b"APPEND" => {
                arguments.exactly().map(|[key, more]| Self::One(key, Action::Append(more)))
            }
            b"STRLEN" => arguments.exactly().map(|[key]| Self::One(key, Action::Length)),
            b"EXPIRE" => {
                let [key, seconds] = arguments.exactly()?;
                let seconds = integer(&seconds)?;
                let after = u64::try_from(seconds).ok().filter(|seconds| *seconds > 0);
                one(key, Action::Expire(after.map(Duration::from_secs)))
            }
            b"TTL" => arguments.exactly().map(|[key]| Self::One(key, Action::TimeLeft(1000))),
            b"PTTL" => arguments.exactly().map(|[key]| Self::One(key, Action::TimeLeft(1))),
            b"KEYS" => {
                let [pattern] = arguments.exactly()?;
                Ok(Self::Everywhere(Whole::Keys(pattern), Gather::Flatten))
            }
            b"SCAN" => scan(arguments),
            b"DBSIZE" => arguments.exactly().map(|[]| Self::Everywhere(Whole::Count, Gather::Sum)),
            b"FLUSHALL" | b"FLUSHDB" => Ok(Self::Everywhere(Whole::Clear, Gather::Done)),
            b"INFO" => Ok(Self::Everywhere(Whole::Count, Gather::Info)),
            b"QUIT" => Ok(Self::Quit),
            b"PING" if arguments.words.is_empty() => Ok(Self::Answer(Reply::Simple("PONG"))),
            b"PING" | b"ECHO" => {
                let [word] = arguments.exactly()?;
                Ok(Self::Answer(Reply::bulk(word)))
            }
            b"HELLO" => fixed::hello(&arguments.words).map(Self::Answer),
            b"CONFIG" => fixed::config(&arguments.words).map(Self::Answer),
            b"COMMAND" => Ok(Self::Answer(fixed::command(&arguments.words))),
            b"SELECT" => {
                let [database] = arguments.exactly()?;
                match integer(&database)? {
                    0 => Ok(Self::Answer(Reply::OK)),
                    _ => Err(Reply::error("ERR DB index is out of range")),
                }
            }
            b"CLIENT" => Ok(Self::Answer(Reply::OK)),
            _ => {
                arguments.words.clear();
                let name = name[..name.len().min(64)].escape_ascii();
                Err(Reply::error(format!("ERR unknown command '{name}'")))
            }
        }
    }
}

/// `SET key value [EX seconds | PX milliseconds] [NX | XX] [GET]`
fn set(arguments: Arguments<'_>) -> Result<Command, Wrong> {
    let (key, value, options) = arguments.two_and_more()?;
    let mut set = Set { value: Bytes::from(value), ..Set::default() };
    let mut options = options.into_iter();
    while let Some(option) = options.next() {
        match option.to_ascii_uppercase().as_slice() {
            b"NX" if set.only_if.is_none() => set.only_if = Some(OnlyIf::Absent),
            b"XX" if set.only_if.is_none() => set.only_if = Some(OnlyIf::Present),
            b"GET" => set.get = true,
            unit @ (b"EX" | b"PX") if set.expires.is_none() => {
                let time = integer(&options.next().ok_or(Reply::error(SYNTAX))?)?;
                let time = u64::try_from(time).ok().filter(|time| *time > 0);
                let time = time.ok_or(Reply::error("ERR invalid expire time in 'set' command"))?;
                set.expires = Some(match unit {
                    b"EX" => Duration::from_secs(time),
                    _ => Duration::from_millis(time),
                });
            }
            _ => return Err(Reply::error(SYNTAX)),
        }
    }
    Ok(Command::One(key, Action::Set(set)))
}

/// `SCAN cursor [MATCH pattern] [COUNT count]`
fn scan(arguments: Arguments<'_>) -> Result<Command, Wrong> {
    let mut words = arguments.at_least(1)?.into_iter();
    let cursor = std::str::from_utf8(&words.next().unwrap_or_default())
        .ok()
        .and_then(|text| text.parse().ok())
        .ok_or(Reply::error("ERR invalid cursor"))?;
    let (mut pattern, mut count) = (b"*".to_vec(), 10);
    while let Some(option) = words.next() {
        let value = words.next().ok_or(Reply::error(SYNTAX))?;
        match option.to_ascii_uppercase().as_slice() {
            b"MATCH" => pattern = value,
            b"COUNT" => match usize::try_from(integer(&value)?) {
                Ok(number @ 1..) => count = number,
                _ => return Err(Reply::error(SYNTAX)),
            },
            _ => return Err(Reply::error(SYNTAX)),
        }
    }
    Ok(Command::Scan { cursor, pattern, count })
}

fn integer(word: &[u8]) -> Result<i64, Wrong> {
    let number = std::str::from_utf8(word).ok().and_then(|text| text.parse().ok());
    number.ok_or(Reply::error(NOT_AN_INTEGER))
}

/// Arguments of a command, and its name for error messages.
struct Arguments<'a> {
    name: &'a [u8],
    words: Request,
}

impl Arguments<'_> {
    fn wrong_number(&self) -> Wrong {
        let name = self.name.to_ascii_lowercase();
        let name = name.escape_ascii();
        Reply::error(format!("ERR wrong number of arguments for '{name}' command"))
    }

    fn exactly<const N: usize>(self) -> Result<[Vec<u8>; N], Wrong> {
        let wrong = self.wrong_number();
        self.words.try_into().map_err(|_| wrong)
    }

    fn at_least(self, count: usize) -> Result<Request, Wrong> {
        if self.words.len() < count { Err(self.wrong_number()) } else { Ok(self.words) }
    }

    fn two_and_more(self) -> Result<(Vec<u8>, Vec<u8>, Request), Wrong> {
        let mut words = self.at_least(2)?;
        let more = words.split_off(2);
        let second = words.pop().unwrap_or_default();
        let first = words.pop().unwrap_or_default();
        Ok((first, second, more))
    }

    /// The same action on each of the keys.
    fn each(self, action: impl Fn() -> Action, gather: Gather) -> Result<Command, Wrong> {
        let keys = self.at_least(1)?;
        Ok(Command::Each(keys.into_iter().map(|key| (key, action())).collect(), gather))
    }

    /// The arguments of MSET.
    fn pairs(self) -> Result<Command, Wrong> {
        if self.words.is_empty() || !self.words.len().is_multiple_of(2) {
            return Err(self.wrong_number());
        }
        let mut sets = Vec::with_capacity(self.words.len() / 2);
        let mut words = self.words.into_iter();
        while let (Some(key), Some(value)) = (words.next(), words.next()) {
            let set = Set { value: Bytes::from(value), ..Set::default() };
            sets.push((key, Action::Set(set)));
        }
        Ok(Command::Each(sets, Gather::Done))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn understand(line: &str) -> Command {
        Command::understand(line.split(' ').map(|word| word.as_bytes().to_vec()).collect())
    }

    fn error(line: &str) -> String {
        match understand(line) {
            Command::Answer(Reply::Error(text)) => text.into_owned(),
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn set_takes_its_options_in_any_order_once() {
        let Command::One(key, Action::Set(set)) = understand("set k v get px 1500 nx") else {
            panic!("a SET")
        };
        let expires = Some(Duration::from_millis(1500));
        let value = Bytes::from("v");
        assert_eq!(key, b"k");
        assert_eq!(set, Set { value, expires, only_if: Some(OnlyIf::Absent), get: true });
        for line in ["SET k v NX XX", "SET k v EX", "SET k v EX 1 PX 1", "SET k v KEEP"] {
            assert_eq!(error(line), SYNTAX, "{line}");
        }
        assert_eq!(error("SET k v EX 0"), "ERR invalid expire time in 'set' command");
        assert_eq!(error("SET k v EX x"), NOT_AN_INTEGER);
    }

    #[test]
    fn invalid_commands_get_errors() {
        for line in ["GET", "GET a b", "MSET a", "MGET", "ECHO", "DEL", "INCRBY a", "PING a b"] {
            assert!(error(line).starts_with("ERR wrong number of arguments for '"), "{line}");
        }
        assert_eq!(error("FLY a"), "ERR unknown command 'FLY'");
        assert_eq!(error("DECRBY a -9223372036854775808"), NOT_AN_INTEGER);
        assert_eq!(error("SCAN x"), "ERR invalid cursor");
        assert_eq!(error("SCAN 0 COUNT 0"), SYNTAX);
        assert_eq!(error("SELECT 1"), "ERR DB index is out of range");
    }
}
