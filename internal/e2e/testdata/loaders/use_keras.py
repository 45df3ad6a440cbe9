PACKAGES = ("keras", "tensorflow-cpu")


def image_dataset_from_directory(view):
    """Keras `image_dataset_from_directory`"""
    from keras.utils import image_dataset_from_directory

    data = image_dataset_from_directory(view, batch_size=1, shuffle=False)
    for path, (pictures, labels) in zip(data.file_paths, data):
        yield path, labels[0], pictures[0]
