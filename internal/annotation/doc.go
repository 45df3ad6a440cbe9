// Package annotation tells files that say where things are in pictures.
//
// An annotation file has boxes, polygons or points, in the form of Pascal VOC, COCO,
// LabelMe or YOLO. It belongs to the picture of the same name in the same directory or in a
// directory beside it, or, as one JSON file for many pictures, to the pictures that it names.
package annotation
