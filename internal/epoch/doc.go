// Package epoch lays out the epochs of a training: a batch of samples is a file.
//
// # Nouns
//
// An epoch goes once through a list of samples. The list are the samples below a directory
// of the dataset as ImageFolder of torchvision would list them: the directories in it are
// the classes, in the order of their names. No sample is opened for it.
//
// The list may also be the rows of a table: a CSV file of the dataset, or one that the mount was
// given, with a column of paths. A sample may be in several rows, each of which is drawn anew.
// Labels come from the table, or from the directories. Users call it a list, too.
//
// The order is a permutation of the list: a function of seed, epoch and the number of
// samples. It is split among the ranks of a world as DistributedSampler of PyTorch does it:
// rank r of w gets each w-th sample, from r on. Where they do not come out even, the order
// goes on from its start, or the rest is dropped. A view may begin behind the samples that were
// read before: the samples that follow are split among the ranks in the same way.
//
// An epoch view is what one rank reads of an epoch in one view, in batches of some number
// of samples: all that its path says. Each batch has files: the pixels as one array, the
// labels, and the paths of the samples. Everything in them is a function of the path.
//
// Samples that somebody asks for are a batch, too. It belongs to no epoch.
//
// A batch is made by all workers at once, each sample where it belongs in the file. It
// is made once for all who read it. While a reader goes through the batches in their order,
// the next ones are made ahead of it, within the budget: so many bytes of batches are in
// memory at once. What was read to its end goes first when memory is short.
package epoch
