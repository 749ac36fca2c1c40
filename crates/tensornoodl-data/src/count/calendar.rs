//! Units of the calendar and the clock.

use std::fmt;

use jiff::ToSpan;
use jiff::civil::{Date, DateTime};

use crate::input::time::{date_of, days_of};

/// A unit of the calendar or the clock. Times are taken as they are written; a time zone is ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// A month of a year.
    Month,
    /// A week of a year. A week starts on Sunday and on 1 January, as in the paper, where a season has 27 weeks.
    Week,
    /// A day.
    Day,
    /// An hour of the day.
    Hour,
    /// A day of the week, Monday first.
    Weekday,
    /// An hour of the week. The first is the first hour of Monday.
    WeekHour,
    /// Cells of time of this width that follow each other. They are counted from midnight of 1 January 1970.
    Every(Width),
    /// A time of day, in slots of this width. The width divides a day.
    Slot(Width),
}

/// The width of a cell of time, written `30s`, `20min`, `2h` or `7d`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Width {
    /// From 1 to 36,525 days.
    seconds: i64,
}

const DAY: i64 = 86_400;

/// The units of a width and their seconds, the longest first.
const SECONDS: [(&str, i64); 4] = [("d", DAY), ("h", 3600), ("min", 60), ("s", 1)];

impl Width {
    /// Parses a width. Returns none for any other text, and for a width of 0 or of more than 36,525 days.
    pub(crate) fn parse(text: &str) -> Option<Width> {
        let (count, unit) = text.split_at(text.find(|letter: char| !letter.is_ascii_digit())?);
        let seconds = SECONDS.iter().find(|known| known.0 == unit.trim())?.1;
        let seconds = count.parse::<i64>().ok()?.checked_mul(seconds)?;
        (1..=36_525 * DAY).contains(&seconds).then_some(Width { seconds })
    }

    /// Returns whether a day has a whole number of cells of this width.
    pub(crate) fn divides_a_day(self) -> bool {
        DAY % self.seconds == 0
    }

    /// Returns the width in seconds.
    pub fn seconds(self) -> i64 {
        self.seconds
    }
}

impl fmt::Display for Width {
    /// Writes the width with the longest unit that it is a multiple of.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, seconds) =
            SECONDS.iter().find(|known| self.seconds % known.1 == 0).copied().unwrap_or(("s", 1));
        write!(f, "{}{unit}", self.seconds / seconds)
    }
}

/// The units without a width, and their names in an axis.
pub(crate) const UNITS: [(Unit, &str); 6] = [
    (Unit::Month, "month"),
    (Unit::Week, "week"),
    (Unit::Day, "day"),
    (Unit::Hour, "hour"),
    (Unit::Weekday, "weekday"),
    (Unit::WeekHour, "weekhour"),
];

impl Unit {
    /// Returns the number of the unit that a time lies in.
    ///
    /// The number of a month, a week or a day is the number of days from 1 January 1970 to its first day. The number
    /// of a cell of time is the number of cells from 1 January 1970 to it.
    pub(crate) fn number(self, time: DateTime) -> i64 {
        match self {
            Unit::Hour => time.hour().into(),
            Unit::Weekday => time.weekday().to_monday_zero_offset().into(),
            Unit::WeekHour => 24 * i64::from(time.weekday().to_monday_zero_offset()) + i64::from(time.hour()),
            Unit::Month | Unit::Week | Unit::Day => days_of(self.first_day(time.date())),
            Unit::Every(width) => {
                (DAY * days_of(time.date()) + second_of_day(time)).div_euclid(width.seconds)
            }
            Unit::Slot(width) => second_of_day(time) / width.seconds,
        }
    }

    /// Returns the first day of the month, the week or the day that a date lies in.
    fn first_day(self, date: Date) -> Date {
        match self {
            Unit::Month => date.first_of_month(),
            Unit::Week => {
                let since_sunday = i64::from(date.weekday().to_sunday_zero_offset());
                let sunday = date.saturating_sub(since_sunday.days());
                if sunday.year() < date.year() { date.first_of_year() } else { sunday }
            }
            _ => date,
        }
    }

    /// Returns the number of the next unit.
    fn next(self, number: i64) -> i64 {
        match (self, date_of(number)) {
            (Unit::Month, Some(date)) => days_of(date.last_of_month()) + 1,
            (Unit::Week, Some(date)) => {
                let sunday = days_of(date) + i64::from(7 - date.weekday().to_sunday_zero_offset());
                sunday.min(days_of(date.last_of_year()) + 1)
            }
            _ => number + 1,
        }
    }

    /// Returns the label of the unit with this number. A cell of time has its start as its label.
    pub(crate) fn label(self, number: i64) -> String {
        match (self, date_of(number)) {
            (Unit::Every(width), _) => {
                let start = number.saturating_mul(width.seconds);
                let day = Unit::Day.label(start.div_euclid(DAY));
                match width.seconds % DAY {
                    0 => day,
                    _ => format!("{day} {}", clock(start.rem_euclid(DAY), width)),
                }
            }
            (Unit::Slot(width), _) => clock(number.saturating_mul(width.seconds).rem_euclid(DAY), width),
            (Unit::Hour, _) => format!("{number:02}:00"),
            (Unit::Weekday, _) => weekday(number).into(),
            (Unit::WeekHour, _) => format!("{} {:02}:00", weekday(number / 24), number % 24),
            (Unit::Month, Some(date)) => format!("{:04}-{:02}", date.year(), date.month()),
            (Unit::Week, Some(date)) => date.strftime("%Y-W%U").to_string(),
            (_, Some(date)) => date.to_string(),
            (_, None) => number.to_string(),
        }
    }

    /// Returns the numbers of all units from `first` to `last`, at most `limit` of them. Hours, slots and days of
    /// the week are always complete.
    pub(crate) fn between(self, first: i64, last: i64, limit: usize) -> Vec<i64> {
        match self {
            Unit::Hour => (0..24).collect(),
            Unit::Weekday => (0..7).collect(),
            Unit::WeekHour => (0..7 * 24).collect(),
            Unit::Slot(width) => (0..DAY / width.seconds).collect(),
            _ => std::iter::successors(Some(first), |number| Some(self.next(*number)))
                .take_while(|number| *number <= last)
                .take(limit)
                .collect(),
        }
    }
}

/// Returns the number of seconds from midnight to a time. Parts of a second are left out.
fn second_of_day(time: DateTime) -> i64 {
    3600 * i64::from(time.hour()) + 60 * i64::from(time.minute()) + i64::from(time.second())
}

/// Writes a time of day. It has seconds only if cells of this width need them.
fn clock(second: i64, width: Width) -> String {
    let (hours, minutes, seconds) = (second / 3600, second / 60 % 60, second % 60);
    match width.seconds % 60 {
        0 => format!("{hours:02}:{minutes:02}"),
        _ => format!("{hours:02}:{minutes:02}:{seconds:02}"),
    }
}

fn weekday(number: i64) -> &'static str {
    const NAMES: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
    NAMES[number.rem_euclid(7) as usize]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::time::parse_time;

    #[test]
    fn times_have_the_labels_of_their_units() {
        let label = |unit: Unit, text: &str| unit.label(unit.number(parse_time(text).unwrap()));
        assert_eq!(label(Unit::Month, "1998-11-13T09:07:00"), "1998-11");
        assert_eq!(label(Unit::Day, "1998-11-13 09:07"), "1998-11-13");
        assert_eq!(label(Unit::Hour, "1998-11-13 09:07:59.5Z"), "09:00");
        assert_eq!(label(Unit::Weekday, "2018-12-16"), "Sun");
        assert_eq!(label(Unit::WeekHour, "2018-12-16 17:20"), "Sun 17:00");
        // The paper's week 10 of the season 2018-19.
        assert_eq!(label(Unit::Week, "2018-12-16"), label(Unit::Week, "2018-12-22"));
        assert_ne!(label(Unit::Week, "2018-12-22"), label(Unit::Week, "2018-12-23"));
        // A week is split at 1 January.
        assert_ne!(label(Unit::Week, "2018-12-31"), label(Unit::Week, "2019-01-01"));
        assert_eq!(label(Unit::Week, "2019-01-01"), label(Unit::Week, "2019-01-05"));
        assert_eq!(label(Unit::Week, "2019-01-05"), "2019-W00");
        let width = |text: &str| Width::parse(text).unwrap();
        let every = |text: &str, time: &str| label(Unit::Every(width(text)), time);
        assert_eq!(every("20min", "2009-10-01 08:59:59.9"), "2009-10-01 08:40");
        assert_eq!(every("20min", "2009-10-01 09:00"), "2009-10-01 09:00");
        assert_eq!(every("20s", "2009-10-01 08:59:59.9"), "2009-10-01 08:59:40");
        assert_eq!(every("2h", "2009-10-01 23:01"), "2009-10-01 22:00");
        assert_eq!(every("1d", "2009-10-01 23:01"), "2009-10-01");
        // Cells of a width that does not divide a day go on over midnight. 1970-01-01 was a Thursday, as these days.
        assert_eq!(every("7h", "1970-01-02 03:59"), "1970-01-01 21:00");
        assert_eq!(every("7d", "2009-10-07 12:00"), "2009-10-01");
        assert_eq!(every("7d", "2009-10-08"), "2009-10-08");
        assert_eq!(every("7d", "1969-12-31"), "1969-12-25");
        assert_eq!(every("20min", "1969-12-31 23:59"), "1969-12-31 23:40");
        let slot = |text: &str, time: &str| label(Unit::Slot(width(text)), time);
        assert_eq!(slot("20min", "2009-10-01 08:59:59.9"), "08:40");
        assert_eq!(slot("30s", "2009-10-01 08:59:59.9"), "08:59:30");
        assert_eq!(slot("1h", "1969-12-31 23:59"), "23:00");
        assert_eq!(slot("1d", "1969-12-31 23:59"), "00:00");
        for text in ["", "yesterday", "2018-13-01", "2018-02-30", "13/11/1998"] {
            assert!(parse_time(text).is_none(), "{text}");
        }
    }

    #[test]
    fn the_season_of_the_paper_has_27_weeks() {
        let number = |unit: Unit, text: &str| unit.number(parse_time(text).unwrap());
        let week = |text: &str| number(Unit::Week, text);
        let weeks = Unit::Week.between(week("2018-10-16"), week("2019-04-10"), 100);
        assert_eq!(weeks.len(), 27);
        assert_eq!(Unit::Week.label(weeks[9]), Unit::Week.label(week("2018-12-16")));
        let month = |text: &str| number(Unit::Month, text);
        let months = Unit::Month.between(month("1998-11-13"), month("2002-06-21"), 100);
        assert_eq!((months.len(), Unit::Month.label(months[43])), (44, "2002-06".into()));
        assert_eq!(Unit::Day.between(0, 30, 100).len(), 31);
        assert_eq!(Unit::Day.between(0, 30, 10).len(), 10);
        assert_eq!(Unit::Hour.between(3, 4, 100).len(), 24);
        let twenty = Width::parse("20min").unwrap();
        assert_eq!(Unit::Every(twenty).between(-3, 30, 100).len(), 34);
        assert_eq!(Unit::Every(twenty).between(-3, 30, 10).len(), 10);
        let slots = Unit::Slot(twenty).between(3, 4, 100);
        assert_eq!((slots.len(), Unit::Slot(twenty).label(slots[71])), (72, "23:40".into()));
    }

    #[test]
    fn widths_are_parsed_and_written() {
        for (text, seconds) in [("30s", 30), ("90s", 90), ("20min", 1200), ("2h", 7200), ("7d", 604_800)] {
            let width = Width::parse(text).unwrap();
            assert_eq!((width.seconds(), width.to_string().as_str()), (seconds, text));
        }
        assert_eq!(Width::parse("60 min").unwrap().to_string(), "1h");
        for text in
            ["", "20", "min", "0s", "-1d", "1.5h", "1w", "1d1", "36526d", "99999999999999999999d", "２d"]
        {
            assert!(Width::parse(text).is_none(), "{text}");
        }
    }

    /// Units follow each other without gap or overlap, checked on every day of ten years.
    #[test]
    fn units_follow_each_other() {
        for unit in [Unit::Month, Unit::Week, Unit::Day] {
            let day =
                |days: i64| unit.number(date_of(days).unwrap().to_datetime(jiff::civil::Time::midnight()));
            for days in 10_000..13_650 {
                let (here, next) = (day(days), day(days + 1));
                assert!(next == here || next == unit.next(here), "{unit:?} {days}");
                assert!(here <= days && days < unit.next(here));
            }
        }
    }
}
