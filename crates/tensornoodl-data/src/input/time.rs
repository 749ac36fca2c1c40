//! Parses dates and times, and converts dates to days since 1 January 1970.

use jiff::Span;
use jiff::civil::{Date, DateTime};

const EPOCH: Date = jiff::civil::date(1970, 1, 1);

/// Returns the number of days from 1 January 1970 to `date`.
pub(crate) fn days_of(date: Date) -> i64 {
    // A difference of dates in days is always a whole number.
    date.since(EPOCH).map_or(0, |span| span.get_days().into())
}

/// Returns the date that is `days` days after 1 January 1970, or none if the calendar does not reach that far.
pub(crate) fn date_of(days: i64) -> Option<Date> {
    EPOCH.checked_add(Span::new().try_days(days).ok()?).ok()
}

/// Parses a date, or a date and a time of day. A time zone is ignored.
pub(crate) fn parse_time(text: &str) -> Option<DateTime> {
    let text = text.trim();
    text.strip_suffix(['Z', 'z']).unwrap_or(text).parse().ok()
}
