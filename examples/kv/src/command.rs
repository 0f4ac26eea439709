//! Parses requests into commands.

use std::array::from_fn;
use std::borrow::Cow;
use std::time::Duration;

use phalanx::net::Bytes;

use crate::fixed;
use crate::reply::Reply;
use crate::resp::{self, Request, Word};
use crate::store::{Action, OnlyIf, Set};

/// A parsed command, with keys in the received bytes.
#[derive(Debug)]
pub(crate) enum Command<'a> {
    /// No action: the answer is known.
    Answer(Reply),
    /// The answer, after which the connection closes.
    Quit,
    /// An action on one key, whose result is the answer.
    One(Word<'a>, Action),
    /// An action on each of several keys, whose results are combined.
    Each(Vec<(Word<'a>, Action)>, Gather),
    /// An action on every partition, whose results are combined.
    Everywhere(PartitionAction, Gather),
    /// A step of an iteration over all keys.
    Scan { cursor: u64, pattern: Vec<u8>, count: usize },
}

/// An action on a whole partition.
#[derive(Clone, Debug)]
pub(crate) enum PartitionAction {
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
type ErrorReply = Reply;

const SYNTAX: &str = "ERR syntax error";
const NOT_AN_INTEGER: &str = "ERR value is not an integer or out of range";
/// The names of all commands are shorter.
const MAX_NAME: usize = 16;

impl<'a> Command<'a> {
    /// Parses `request`.
    pub(crate) fn parse(request: Request<'a>) -> Self {
        let mut words = request.into_iter();
        let name = words.next().unwrap_or_default();
        let mut upper = [0; MAX_NAME];
        let upper = upper.get_mut(..name.len()).unwrap_or_default();
        upper.copy_from_slice(&name[..upper.len()]);
        upper.make_ascii_uppercase();
        Self::named(upper, Arguments { name: &name, words }).unwrap_or_else(Self::Answer)
    }

    /// The command with this name in capitals, which is empty for a name that is too long.
    fn named(name: &[u8], arguments: Arguments<'_, 'a>) -> Result<Self, ErrorReply> {
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
                let [key, more] = arguments.exactly()?;
                one(key, Action::Append(more.into_owned()))
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
                Ok(Self::Everywhere(PartitionAction::Keys(pattern.into_owned()), Gather::Flatten))
            }
            b"SCAN" => scan(arguments),
            b"DBSIZE" => {
                arguments.exactly().map(|[]| Self::Everywhere(PartitionAction::Count, Gather::Sum))
            }
            b"FLUSHALL" | b"FLUSHDB" => Ok(Self::Everywhere(PartitionAction::Clear, Gather::Done)),
            b"INFO" => Ok(Self::Everywhere(PartitionAction::Count, Gather::Info)),
            b"QUIT" => Ok(Self::Quit),
            b"PING" if arguments.words.len() == 0 => Ok(Self::Answer(Reply::Simple("PONG"))),
            b"PING" | b"ECHO" => {
                let [word] = arguments.exactly()?;
                Ok(Self::Answer(Reply::bulk(word.into_owned())))
            }
            b"HELLO" => fixed::hello(arguments.words.as_slice()).map(Self::Answer),
            b"CONFIG" => fixed::config(arguments.words.as_slice()).map(Self::Answer),
            b"COMMAND" => Ok(Self::Answer(fixed::command(arguments.words.as_slice()))),
            b"SELECT" => {
                let [database] = arguments.exactly()?;
                match integer(&database)? {
                    0 => Ok(Self::Answer(Reply::OK)),
                    _ => Err(Reply::error("ERR DB index is out of range")),
                }
            }
            b"CLIENT" => Ok(Self::Answer(Reply::OK)),
            _ => {
                let name = arguments.name[..arguments.name.len().min(64)].escape_ascii();
                Err(Reply::error(format!("ERR unknown command '{name}'")))
            }
        }
    }
}

/// `SET key value [EX seconds | PX milliseconds] [NX | XX] [GET]`
fn set<'a>(arguments: Arguments<'_, 'a>) -> Result<Command<'a>, ErrorReply> {
    let ([key, value], mut options) = arguments.at_least()?;
    let mut set = Set { value: owned(value), ..Set::default() };
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
fn scan<'a>(arguments: Arguments<'_, 'a>) -> Result<Command<'a>, ErrorReply> {
    let ([cursor], mut words) = arguments.at_least()?;
    let cursor = std::str::from_utf8(&cursor).ok().and_then(|text| text.parse().ok());
    let cursor = cursor.ok_or(Reply::error("ERR invalid cursor"))?;
    let (mut pattern, mut count) = (Cow::Borrowed(&b"*"[..]), 10);
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
    Ok(Command::Scan { cursor, pattern: pattern.into_owned(), count })
}

fn integer(word: &[u8]) -> Result<i64, ErrorReply> {
    resp::integer(word).ok_or(Reply::error(NOT_AN_INTEGER))
}

fn owned(value: Word<'_>) -> Bytes {
    value.into_owned().into()
}

/// Arguments of a command, and its name for error messages.
struct Arguments<'n, 'a> {
    name: &'n [u8],
    words: smallvec::IntoIter<[Word<'a>; 4]>,
}

impl<'a> Arguments<'_, 'a> {
    #[cold]
    fn wrong_number(&self) -> ErrorReply {
        let name = self.name.to_ascii_lowercase();
        let name = name.escape_ascii();
        Reply::error(format!("ERR wrong number of arguments for '{name}' command"))
    }

    fn exactly<const N: usize>(mut self) -> Result<[Word<'a>; N], ErrorReply> {
        if self.words.len() != N {
            return Err(self.wrong_number());
        }
        Ok(from_fn(|_| self.words.next().unwrap_or_default()))
    }

    /// The first arguments, and the others.
    fn at_least<const N: usize>(
        mut self,
    ) -> Result<([Word<'a>; N], impl Iterator<Item = Word<'a>>), ErrorReply> {
        if self.words.len() < N {
            return Err(self.wrong_number());
        }
        Ok((from_fn(|_| self.words.next().unwrap_or_default()), self.words))
    }

    /// The same action on each of the keys.
    fn each(self, action: impl Fn() -> Action, gather: Gather) -> Result<Command<'a>, ErrorReply> {
        if self.words.len() == 0 {
            return Err(self.wrong_number());
        }
        Ok(Command::Each(self.words.map(|key| (key, action())).collect(), gather))
    }

    /// The arguments of MSET.
    fn pairs(mut self) -> Result<Command<'a>, ErrorReply> {
        let count = self.words.len();
        if count == 0 || !count.is_multiple_of(2) {
            return Err(self.wrong_number());
        }
        let mut sets = Vec::with_capacity(count / 2);
        while let (Some(key), Some(value)) = (self.words.next(), self.words.next()) {
            let set = Set { value: owned(value), ..Set::default() };
            sets.push((key, Action::Set(set)));
        }
        Ok(Command::Each(sets, Gather::Done))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Command<'_> {
        Command::parse(line.split(' ').map(|word| word.as_bytes().into()).collect())
    }

    fn error(line: &str) -> String {
        match parse(line) {
            Command::Answer(Reply::Error(text)) => text.into_owned(),
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn set_takes_its_options_in_any_order_once() {
        let Command::One(key, Action::Set(set)) = parse("set k v get px 1500 nx") else {
            panic!("a SET")
        };
        let expires = Some(Duration::from_millis(1500));
        let value = Bytes::from("v");
        assert_eq!(&*key, b"k");
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
        assert_eq!(error("subscribe a"), "ERR unknown command 'subscribe'");
        assert_eq!(error("DECRBY a -9223372036854775808"), NOT_AN_INTEGER);
        assert_eq!(error("SCAN x"), "ERR invalid cursor");
        assert_eq!(error("SCAN 0 COUNT 0"), SYNTAX);
        assert_eq!(error("SELECT 1"), "ERR DB index is out of range");
    }
}
