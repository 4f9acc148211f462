#!/usr/bin/env python3
"""Write titanic.csv, adult.csv and housing.csv beside this script.

They have the columns, spellings and gaps of three well-known tables, and rows of our own making with a
plausible relation between columns and target. The rows are drawn from a fixed seed.
"""
import csv
import math
import os
import random

FOLDER = os.path.dirname(os.path.abspath(__file__))


def write(name, header, rows, **how):
    with open(os.path.join(FOLDER, name), "w", newline="") as file:
        out = csv.writer(file, lineterminator="\n", **how)
        if header:
            out.writerow(header)
        out.writerows(rows)


def drawn(rng, logit):
    return rng.random() < 1 / (1 + math.exp(-logit))


def titanic(rng, count=600):
    first = ["Anna", "Carl", "Edith", "Hans", "Ida", "John", "Mary", "Olaf", "Rosa", "William"]
    last = ["Abel", "Brandt", "Cole", "Dean", "Ek", "Ford", "Hill", "Lund", "Moor", "Quist", "Sand", "West"]
    rows = []
    for i in range(1, count + 1):
        klass = rng.choices([1, 2, 3], [24, 21, 55])[0]
        sex = rng.choices(["male", "female"], [65, 35])[0]
        age = max(0.4, rng.gauss(42 - 6 * klass, 13))
        siblings = rng.choices([0, 1, 2, 3], [68, 23, 6, 3])[0]
        parents = rng.choices([0, 1, 2], [76, 13, 11])[0]
        fare = round(math.exp(rng.gauss(5.2 - 0.95 * klass, 0.5)) + 4 * (siblings + parents), 4)
        cabin = f"{rng.choice('ABCDE')}{rng.randint(1, 120)}" if klass == 1 and rng.random() < 0.8 else ""
        port = rng.choices(["S", "C", "Q", ""], [72, 18, 9, 1])[0]
        survived = drawn(rng, 3.6 * (sex == "female") - 1.5 * (klass - 2) - 0.05 * (age - 28) - 1.4)
        title = "Mr." if sex == "male" else "Miss." if age < 25 else "Mrs."
        rows.append([i, int(survived), klass, f"{rng.choice(last)}, {title} {rng.choice(first)} {i}", sex,
                     "" if rng.random() < 0.2 else round(age, 1), siblings, parents,
                     f"{rng.choice(['PC ', 'A/5 ', ''])}{rng.randint(10000, 999999)}", fare, cabin, port])
    write("titanic.csv", ["PassengerId", "Survived", "Pclass", "Name", "Sex", "Age", "SibSp", "Parch", "Ticket",
                          "Fare", "Cabin", "Embarked"], rows)


def adult(rng, count=900):
    educations = [("HS-grad", 9, 32), ("Some-college", 10, 22), ("Bachelors", 13, 17), ("Masters", 14, 6),
                  ("Assoc-voc", 11, 5), ("11th", 7, 4), ("Doctorate", 16, 2), ("7th-8th", 4, 2)]
    jobs = [("Prof-specialty", 1.0), ("Craft-repair", 0.0), ("Exec-managerial", 1.2), ("Adm-clerical", -0.3),
            ("Sales", 0.2), ("Other-service", -1.2), ("Machine-op-inspct", -0.5), ("?", -0.6)]
    countries = ["United-States"] * 30 + ["Mexico", "Philippines", "Germany", "?", "India", "Canada"]
    rows = []
    for _ in range(count):
        age = min(90, max(17, int(rng.gauss(39, 13))))
        education, years, _ = rng.choices(educations, [e[2] for e in educations])[0]
        job, worth = rng.choice(jobs)
        married = rng.random() < (0.15 if age < 26 else 0.58)
        sex = rng.choices(["Male", "Female"], [67, 33])[0]
        hours = min(99, max(5, int(rng.gauss(41, 11))))
        gain = rng.randint(3000, 20000) if rng.random() < 0.08 else 0
        rich = drawn(rng, -3.9 + 2.2 * married + 0.35 * (years - 9) + worth + 0.03 * (hours - 40) +
                      0.03 * (min(age, 60) - 38) + 0.00025 * gain)
        rows.append([age, "?" if job == "?" else rng.choices(["Private", "Self-emp-not-inc", "Local-gov", "State-gov"],
                                                             [75, 10, 9, 6])[0],
                     rng.randint(20000, 500000), education, years,
                     "Married-civ-spouse" if married else rng.choice(["Never-married", "Divorced", "Widowed"]), job,
                     ("Husband" if sex == "Male" else "Wife") if married else rng.choice(["Not-in-family", "Own-child",
                                                                                          "Unmarried"]),
                     rng.choices(["White", "Black", "Asian-Pac-Islander", "Other"], [85, 10, 3, 2])[0], sex, gain,
                     rng.randint(1500, 2500) if rng.random() < 0.04 else 0, hours, rng.choice(countries),
                     ">50K" if rich else "<=50K"])
    # The original has no line of names, and a space after each comma.
    write("adult.csv", None, [[f" {field}" if i else field for i, field in enumerate(row)] for row in rows])


def housing(rng, count=800):
    rows = []
    for _ in range(count):
        latitude = rng.uniform(32.6, 41.9)
        longitude = -124.3 + (41.9 - latitude) * 0.9 + abs(rng.gauss(0, 1.6))
        coast = longitude + 124.3 - (41.9 - latitude) * 0.9
        near = "NEAR OCEAN" if coast < 0.4 else "NEAR BAY" if coast < 0.8 and latitude > 37 else \
            "<1H OCEAN" if coast < 1.8 else "INLAND"
        age = rng.randint(2, 52)
        households = int(math.exp(rng.gauss(6.0, 0.6))) + 5
        rooms = int(households * rng.gauss(5.3, 0.9))
        bedrooms = int(rooms * rng.gauss(0.21, 0.02))
        people = int(households * rng.gauss(2.9, 0.4))
        income = max(0.5, math.exp(rng.gauss(1.25, 0.42)))
        value = 41000 * income + 60000 * math.exp(-coast) + 900 * age + rng.gauss(0, 32000) + 20000
        rows.append([round(longitude, 2), round(latitude, 2), float(age), float(rooms),
                     "" if rng.random() < 0.02 else float(bedrooms), float(people), float(households),
                     round(income, 4), float(min(500001, max(15000, round(value, -2)))), near])
    write("housing.csv", ["longitude", "latitude", "housing_median_age", "total_rooms", "total_bedrooms", "population",
                          "households", "median_income", "median_house_value", "ocean_proximity"], rows)


titanic(random.Random(1))
adult(random.Random(2))
housing(random.Random(3))
