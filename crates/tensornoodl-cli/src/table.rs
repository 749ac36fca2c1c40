//! A table or an array on the command line: the file, and the axes, values and filters that make tensors of it.

use std::path::{Path, PathBuf};

use tensornoodl_data::{Axis, Error, Events, Filter, Lookup, Query, Value, table};

use crate::output::note;
use crate::program::wrong;

/// The options that all commands with a table share.
#[derive(clap::Args)]
pub struct TableArgs {
    /// A table: CSV whose first line names the columns (also compressed by gzip), Parquet, or - for CSV from standard
    /// input. Or an array: .npy, .npz (one array, or fibers, p x n, and places, p x 2), .tns or .tns.gz. The columns
    /// of an array are 1, 2 and 3, the indices along its axes, and value.
    #[arg(value_name = "TABLE")]
    path: PathBuf,
    /// What patterns extend over: a column c, month(c), week(c) (weeks begin on Sunday, the first one on 1 January),
    /// day(c), hour(c), weekday(c), weekhour(c), every(c,20min) (cells of time of any width, in s, min, h or d),
    /// slot(c,20min) (time of day), bin(c,width), grid(x,y,12x10,lowest x:highest x,lowest y:highest y), or
    /// court(x,y,12x10) for half a basketball court [default: axis 1 of an array; its other axes are rows and cols].
    #[arg(long, value_name = "AXIS")]
    feature: Option<String>,
    /// Who takes part: a column, or a function of columns as for --feature.
    #[arg(long, value_name = "AXIS")]
    row: Option<String>,
    /// With whom the rows take part: a column, or a function of columns as for --feature.
    #[arg(long, value_name = "AXIS")]
    col: Option<String>,
    /// The time axis of the stream: each of its values is a step with a tensor [default: one tensor].
    #[arg(long, value_name = "AXIS")]
    step: Option<String>,
    /// What a cell holds: count, sum(column) or mean(column) [default: count; sum(value) for an array].
    #[arg(long)]
    value: Option<String>,
    /// Divide each cell by the number of distinct values of this column among the events of its row, col and step.
    #[arg(long, value_name = "COLUMN")]
    average_over: Option<String>,
    /// Keep only the N rows with the most events; N is at least 1.
    #[arg(long, value_name = "N")]
    keep_rows: Option<usize>,
    /// Allow at most N features; more are refused. Times and bins also have the labels between those with events
    /// [default: 1000000; for times and bins 10000, or 10 times the number of labels with events if that is more].
    #[arg(long, value_name = "N")]
    max_features: Option<usize>,
    /// Use only events that meet this condition, such as type=to, points>=2 or from!=@to (@ marks a column); may be
    /// given several times.
    #[arg(long = "where", value_name = "FILTER")]
    filters: Vec<String>,
    /// Rows and cols are the same people: both axes get the labels of both.
    #[arg(long, conflicts_with = "keep_rows")]
    square: bool,
    /// Names for rows and cols from a second table: its file, its column of labels, and its column of names.
    #[arg(long, value_name = "FILE(LABEL,NAME)")]
    names: Option<String>,
    /// Known groups of rows and cols from a second table: its file, its column of labels, and its column of groups.
    /// Groups that are found are compared with them.
    #[arg(long, value_name = "FILE(LABEL,GROUP)")]
    groups: Option<String>,
}

impl TableArgs {
    /// Returns the name of the table for messages.
    pub fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// Returns what to count in the table.
    ///
    /// # Errors
    /// If an axis, a filter or a value cannot be parsed, an axis is missing, or `--keep-rows` or `--max-features` is 0.
    pub fn query(&self) -> Result<Query, Error> {
        let keep_rows = self.keep_rows;
        if keep_rows == Some(0) {
            return Err(wrong("keep_rows", 0, "at least 1").into());
        }
        if self.max_features == Some(0) {
            return Err(wrong("max_features", 0, "at least 1").into());
        }
        let [feature, row, col] = self.axes()?;
        let value = if self.is_array() { "sum(value)" } else { "count" };
        Ok(Query {
            feature,
            row,
            col,
            step: self.step.as_deref().map(|step| self.axis(step)).transpose()?,
            value: self.value.as_deref().unwrap_or(value).parse::<Value>()?,
            average_over: self.average_over.clone(),
            keep_rows,
            max_features: self.max_features,
            filters: self.filters.iter().map(|filter| filter.parse::<Filter>()).collect::<Result<_, _>>()?,
            square: self.square,
            names: self.names.as_deref().map(str::parse).transpose()?,
            groups: self.groups.as_deref().map(str::parse).transpose()?,
        })
    }

    fn is_array(&self) -> bool {
        table::is_array(&self.path)
    }

    /// Returns the axes of features, rows and cols. For an array, those that are not given are its other axes, in
    /// order.
    fn axes(&self) -> Result<[Axis; 3], Error> {
        let given = [("--feature", &self.feature), ("--row", &self.row), ("--col", &self.col)];
        let mut axes = Vec::new();
        for (_, text) in given {
            axes.push(text.as_deref().map(|text| self.axis(text)).transpose()?);
        }
        let taken = |name: &&str| axes.iter().flatten().any(|axis| axis.columns().contains(name));
        let free: Vec<&str> = ["1", "2", "3"].into_iter().filter(|name| !taken(name)).collect();
        let mut free = free.into_iter().filter(|_| self.is_array());
        let mut axis = |at: usize| match (axes[at].take(), given[at].0) {
            (Some(axis), _) => Ok(axis),
            (None, name) => {
                let axis = free.next().map(|axis| self.axis(axis));
                let rule = "a column of the table, or made of columns; give --feature, --row and --col; only arrays \
                            (.npy, .npz, .tns) have defaults";
                axis.unwrap_or_else(|| Err(wrong(name, "missing", rule).into()))
            }
        };
        Ok([axis(0)?, axis(1)?, axis(2)?])
    }

    /// Parses an axis. The indices of an array are numbers: features also have the indices between them that never
    /// occur.
    fn axis(&self, text: &str) -> Result<Axis, Error> {
        match text.parse()? {
            Axis::Column(name) if self.is_array() && table::ARRAY_COLUMNS[..3].contains(&name.as_str()) => {
                Ok(Axis::Bin(name, 1.0))
            }
            axis => Ok(axis),
        }
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the paths of all files that a command with these options reads.
    ///
    /// # Errors
    /// If `--names` or `--groups` cannot be parsed.
    pub fn inputs(&self) -> Result<Vec<PathBuf>, Error> {
        let mut inputs = vec![self.path.clone()];
        for text in self.names.iter().chain(&self.groups) {
            inputs.push(text.parse::<Lookup>()?.path().to_owned());
        }
        Ok(inputs)
    }

    /// Says on stderr if the feature axis is much longer than the events need, and that learning takes this many bytes of
    /// memory.
    pub fn note_stretch(&self, events: &Events, bytes: f64) {
        if let Some(stretch) = &events.stretch {
            note(&format!(
                "{}; learning takes about {:.1} GB of memory",
                stretch.words(&self.name()),
                bytes / 1e9
            ));
        }
    }

    /// Reads and counts the table.
    ///
    /// # Errors
    /// If the query is wrong or the file cannot be read.
    pub fn read(&self) -> Result<Events, Error> {
        table::read(&self.path, self.query()?)
    }
}
