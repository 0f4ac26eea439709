//! Exact decimal numbers.
//!
//! A number is an integer count of 10⁻¹⁸. Comparing two numbers compares two integers, and `0.1` is exact. A
//! binary fraction would not be: `price = 0.1` must hold for a price of `0.1`.

use std::fmt;

/// Maximum number of digits after the decimal point.
const PLACES: u32 = 18;

/// Maximum number of digits before the decimal point.
const MAX_WHOLE_DIGITS: i64 = 20;

/// The representation of 1.
const ONE: i128 = 10i128.pow(PLACES);

/// The largest magnitude: 20 digits before the point, enough for every 64-bit integer.
const BOUND: i128 = 10i128.pow(38) - 1;

/// Number of digits that fit into 64 bits.
const SHORT: usize = 18;

/// The largest useful exponent; no number beyond it fits.
const MAX_EXPONENT: i32 = 40;

/// An exact decimal number: at most 20 digits before the point and 18 after it.
///
/// ```
/// use phalanx_matcher::Number;
///
/// let tenth = Number::parse("0.1")?;
/// assert_eq!(tenth, Number::parse("1e-1")?);
/// assert!(tenth < Number::from(1));
/// assert_eq!(tenth.to_string(), "0.1");
/// # Ok::<(), phalanx_matcher::NumberError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Number(i128);

/// The reason why a text is not a [`Number`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberError {
    /// It does not have the form `-12.5e3`.
    Form,
    /// It has digits beyond the 18th after the point.
    Fraction,
    /// It has more than 20 digits before the point.
    Range,
}

impl fmt::Display for NumberError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NumberError::Form => "not a number; write it like 42, -1.5 or 2e6",
            NumberError::Fraction => "more than 18 digits after the point; round it",
            NumberError::Range => "more than 20 digits before the point",
        })
    }
}

impl std::error::Error for NumberError {}

impl Number {
    /// Parses a number: an optional sign, digits with an optional point, and an optional exponent. The work
    /// is linear in the length of the text.
    ///
    /// # Errors
    /// If the text has another form, or the number cannot be represented exactly.
    #[inline]
    pub fn parse(text: &str) -> Result<Number, NumberError> {
        // Fast path: most numbers have few digits.
        if let 1..=SHORT = text.len()
            && text.bytes().all(|byte| byte.is_ascii_digit())
        {
            let add = |value: i64, digit: u8| 10 * value + i64::from(digit - b'0');
            return Ok(Number::from(text.bytes().fold(0, add)));
        }
        Number::parse_any(text)
    }

    fn parse_any(text: &str) -> Result<Number, NumberError> {
        let (negative, text) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        let (mantissa, power) = match text.find(['e', 'E']) {
            Some(at) => (&text[..at], Some(&text[at + 1..])),
            None => (text, None),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if whole.len() + fraction.len() == 0 || !digits(whole) || !digits(fraction) {
            return Err(NumberError::Form);
        }
        // Parsed after the mantissa, so that `node500` has the wrong form rather than too large an exponent.
        let exponent = power.map_or(Ok(0), exponent)?;
        // Leading and trailing zeros do not change the value.
        let fraction = fraction.trim_end_matches('0');
        let all = whole.bytes().chain(fraction.bytes());
        let mut significant = all.skip_while(|digit| *digit == b'0').peekable();
        if significant.peek().is_none() {
            return Ok(Number(0));
        }
        let length = fraction.len().min(i32::MAX as usize / 2) as i32;
        let mut shift = PLACES as i32 + exponent - length;
        let mut value: i128 = 0;
        // A negative exponent may consume the trailing zeros of an integer.
        let mut zeros = 0;
        for digit in significant {
            zeros += 1;
            if digit != b'0' {
                let add = |value: i128, digit: u8| {
                    let sum = value.checked_mul(10)?.checked_add(digit.into())?;
                    Some(sum).filter(|sum| *sum <= BOUND)
                };
                let mut places = (1..zeros).map(|_| 0).chain([digit - b'0']);
                // More than 38 digits: too many before the point, or else behind it.
                let too_many = || too_many_digits(whole, fraction, exponent);
                value = places.try_fold(value, add).ok_or_else(too_many)?;
                zeros = 0;
            }
        }
        shift = shift.saturating_add(zeros);
        if shift < 0 {
            return Err(NumberError::Fraction);
        }
        let scale = 10i128.checked_pow(shift as u32).ok_or(NumberError::Range)?;
        let value = value.checked_mul(scale).filter(|value| *value <= BOUND);
        let value = value.ok_or(NumberError::Range)?;
        Ok(Number(if negative { -value } else { value }))
    }

    /// The nearest representable number: `value` is rounded to 18 digits after the point, with ties away from zero, and
    /// clamped to the range. `None` for NaN.
    #[must_use]
    pub fn nearest(value: f64) -> Option<Number> {
        if value.is_nan() {
            return None;
        }
        if value.abs() >= 1e20 {
            return Some(Number(if value < 0.0 { -BOUND } else { BOUND }));
        }
        // The shortest decimal text of this double is most likely the number that its author wrote.
        let text = value.to_string();
        let end = text.find('.').map_or(text.len(), |point| point + 1 + PLACES as usize);
        let Number(cut) = Number::parse(&text[..end.min(text.len())]).ok()?;
        let is_up = text.as_bytes().get(end).is_some_and(|digit| *digit >= b'5');
        let away = if value < 0.0 { -1 } else { 1 };
        Some(Number(cut + if is_up { away } else { 0 }))
    }
}

/// The error for a number with more digits than the two bounds allow together.
#[cold]
fn too_many_digits(whole: &str, fraction: &str, exponent: i32) -> NumberError {
    let whole = whole.trim_start_matches('0');
    let leading =
        if whole.is_empty() { fraction.len() - fraction.trim_start_matches('0').len() } else { 0 };
    // Texts are short enough for 64 bits.
    let before = whole.len() as i64 - leading as i64 + i64::from(exponent);
    if before > MAX_WHOLE_DIGITS { NumberError::Range } else { NumberError::Fraction }
}

/// The number after the `e`, clamped: larger magnitudes do not fit.
fn exponent(text: &str) -> Result<i32, NumberError> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(NumberError::Form);
    }
    let digits = digits.trim_start_matches('0');
    let value = match digits.len() {
        0 => 0,
        1..=4 => digits.parse().map_err(|_| NumberError::Form)?,
        _ if text.starts_with('-') => return Err(NumberError::Fraction),
        _ => return Err(NumberError::Range),
    };
    let value: i32 = value;
    // In a text of bounded length, the digits before the point can compensate for an exponent up to this bound.
    if value > 8 * MAX_EXPONENT {
        let low = text.starts_with('-');
        return Err(if low { NumberError::Fraction } else { NumberError::Range });
    }
    Ok(if text.starts_with('-') { -value } else { value })
}

impl Number {
    /// The least number above the cut just before this one, or just `after` it. It exists because numbers are
    /// integers.
    #[inline]
    pub(crate) fn cut(self, after: bool) -> Number {
        Number(self.0 + i128::from(after))
    }
}

/// Arithmetic. Products and quotients are rounded towards zero to 18 digits after the point.
impl Number {
    pub(crate) fn plus(self, other: Number) -> Option<Number> {
        bounded(self.0.checked_add(other.0)?)
    }

    pub(crate) fn minus(self, other: Number) -> Option<Number> {
        bounded(self.0.checked_sub(other.0)?)
    }

    pub(crate) fn times(self, other: Number) -> Option<Number> {
        self.scaled(other.0, ONE)
    }

    /// `None` if `other` is zero.
    pub(crate) fn divided_by(self, other: Number) -> Option<Number> {
        self.scaled(ONE, other.0)
    }

    /// `self * factor / divisor`, with a product of up to 256 bits.
    fn scaled(self, factor: i128, divisor: i128) -> Option<Number> {
        let is_negative = (self.0 < 0) ^ (factor < 0) ^ (divisor < 0);
        let (own, factor, divisor) =
            (self.0.unsigned_abs(), factor.unsigned_abs(), divisor.unsigned_abs());
        let value = match own.checked_mul(factor) {
            Some(product) => product.checked_div(divisor)?,
            None => long_scaled(own, factor, divisor)?,
        };
        let value = i128::try_from(value).ok()?;
        bounded(if is_negative { -value } else { value })
    }
}

fn bounded(value: i128) -> Option<Number> {
    (-BOUND..=BOUND).contains(&value).then_some(Number(value))
}

/// `own * factor / divisor` by doubling: the quotient and remainder of `own * n / divisor`, where `n` is made of
/// the upper bits of `factor`. Both remainders are below 10³⁸, so their sums fit.
fn long_scaled(own: u128, factor: u128, divisor: u128) -> Option<u128> {
    let once = (own.checked_div(divisor)?, own % divisor);
    let add = |(quotient, remainder): (u128, u128), (more, part): (u128, u128)| {
        let (quotient, remainder) = (quotient.checked_add(more)?, remainder + part);
        match remainder.checked_sub(divisor) {
            Some(remainder) => Some((quotient.checked_add(1)?, remainder)),
            None => Some((quotient, remainder)),
        }
    };
    let mut sum = (0, 0);
    for bit in (0..u128::BITS - factor.leading_zeros()).rev() {
        sum = add(sum, sum)?;
        if factor >> bit & 1 == 1 {
            sum = add(sum, once)?;
        }
    }
    Some(sum.0)
}

impl From<i64> for Number {
    fn from(value: i64) -> Number {
        Number(i128::from(value) * ONE)
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let (whole, fraction) = (self.0.abs() / ONE, self.0.abs() % ONE);
        if fraction == 0 {
            return write!(f, "{sign}{whole}");
        }
        let text = format!("{fraction:018}");
        write!(f, "{sign}{whole}.{}", text.trim_end_matches('0'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Result<String, NumberError> {
        Number::parse(text).map(|number| number.to_string())
    }

    #[test]
    fn numbers_are_exact() {
        let same = [
            ("0", "0"),
            ("-0", "0"),
            ("+7", "7"),
            ("007", "7"),
            (".5", "0.5"),
            ("5.", "5"),
            ("-1.50", "-1.5"),
            ("1e3", "1000"),
            ("12.5E-1", "1.25"),
            ("1000e-20", "0.00000000000000001"),
            ("9223372036854775807", "9223372036854775807"),
            ("99999999999999999999.999999999999999999", "99999999999999999999.999999999999999999"),
            ("999999999999999999", "999999999999999999"),
            ("1000000000000000000", "1000000000000000000"),
            ("0e99", "0"),
            ("0.000000000000000001", "0.000000000000000001"),
        ];
        for (text, means) in same {
            assert_eq!(number(text).as_deref(), Ok(means), "{text}");
        }
    }

    #[test]
    fn arithmetic_is_exact_up_to_18_digits() {
        let of = |text: &str| Number::parse(text).unwrap();
        let shown = |result: Option<Number>| result.map(|number| number.to_string());
        let max = "99999999999999999999.999999999999999999";
        for (left, right, product, quotient) in [
            ("0.1", "3", Some("0.3"), Some("0.033333333333333333")),
            ("-7.5", "2", Some("-15"), Some("-3.75")),
            ("101.5", "-20000.25", Some("-2030025.375"), Some("-0.005074936563292958")),
            ("99999999999", "99999999.5", Some("9999999949900000000.5"), Some("1000.00000499")),
            (max, "1", Some(max), Some(max)),
            (max, max, None, Some("1")),
            ("0.000000000000000001", "0.1", Some("0"), Some("0.00000000000000001")),
            ("1", "0", Some("0"), None),
            (max, "0.5", Some("49999999999999999999.999999999999999999"), None),
        ] {
            let (a, b) = (of(left), of(right));
            assert_eq!(shown(a.times(b)).as_deref(), product, "{left} * {right}");
            assert_eq!(a.times(b), b.times(a));
            let result = shown(a.divided_by(b));
            match quotient {
                Some(quotient) => {
                    assert!(result.is_some_and(|result| result.starts_with(quotient)))
                }
                None => assert_eq!(result, None, "{left} / {right}"),
            }
        }
        assert_eq!(shown(of(max).plus(of("0.000000000000000001"))), None);
        // The sum and the difference exceed 128 bits.
        let min = of("0").minus(of(max)).unwrap();
        assert_eq!((of(max).plus(of(max)), min.minus(of(max))), (None, None));
        assert_eq!(shown(of("-0.3").minus(of("0.4"))).as_deref(), Some("-0.7"));
    }

    /// The doubling agrees with the CPU's division.
    #[test]
    fn long_division_agrees_with_short_division() {
        let mut rng = fastrand::Rng::with_seed(1);
        for _ in 0..1000 {
            let mut some = |bits: u32| rng.u128(..1 << bits) + 1;
            let (own, factor, divisor) = (some(63), some(60), some(62));
            assert_eq!(long_scaled(own, factor, divisor), Some(own * factor / divisor));
            // A common factor of product and divisor does not change the quotient.
            let (wide, of) = (own << 50, divisor << 50);
            assert_eq!(long_scaled(wide, factor, of), Some(own * factor / divisor));
        }
    }

    #[test]
    fn unrepresentable_numbers_fail_with_a_reason() {
        for text in ["", "-", ".", "e1", "1e", "1e+", "0x1", "1.2.3", "--1", "1_0", "NaN", "1 "] {
            assert_eq!(number(text), Err(NumberError::Form), "{text}");
        }
        for text in ["node500", "suite401", "E12345", "1x5e9999", "1e9999x", "-e500"] {
            assert_eq!(number(text), Err(NumberError::Form), "{text}");
        }
        let wraps = "170141183460469231731.687303715884105729";
        let long = format!("{}.{}", "1".repeat(21), "1".repeat(40));
        let texts = ["1e20", "100000000000000000000", "1e300", "1e99999999999", &"9".repeat(5000)];
        for text in texts.into_iter().chain([wraps, &long]) {
            assert_eq!(number(text), Err(NumberError::Range), "{text}");
        }
        let third = format!("0.{}", "3".repeat(40));
        let tiny = format!("0.{}{}", "0".repeat(30), "3".repeat(40));
        for text in ["1e-19", "0.1234567890123456789", "1e-99999999", &third, &tiny] {
            assert_eq!(number(text), Err(NumberError::Fraction), "{text}");
        }
    }

    #[test]
    fn doubles_are_rounded_and_kept_in_range() {
        let near = |value: f64| Number::nearest(value).map(|number| number.to_string());
        assert_eq!(near(0.1).as_deref(), Some("0.1"));
        assert_eq!(near(1e300).as_deref(), Some("99999999999999999999.999999999999999999"));
        assert_eq!(near(f64::NEG_INFINITY), near(-1e30));
        assert_eq!(near(1.234_567_890_123_456_7e-5).as_deref(), Some("0.000012345678901235"));
        assert_eq!(near(-1.234_567_890_123_456_7e-5).as_deref(), Some("-0.000012345678901235"));
        assert_eq!(near(-6e-19).as_deref(), Some("-0.000000000000000001"));
        assert_eq!(near(4e-19).as_deref(), Some("0"));
        assert_eq!(near(f64::NAN), None);
    }
}
